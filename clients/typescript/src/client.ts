/** An episode from start to report: repeated safely, kept while offline, and never hidden by two draws of noise. */
import { check, personal, record, type Trajectory, whole } from "./checks.js";
import { draws, UNITS } from "./draws.js";
import { Closed, Refused, Unavailable } from "./errors.js";
import { asking, sleep, type Transport } from "./http.js";
import { fromDocument, type Pin } from "./pin.js";
import { toWire } from "./wire.js";

/** Where reports wait. `localStorage` is one; so is anything asynchronous of the same shape. */
export interface Store {
  getItem(key: string): string | null | undefined | Promise<string | null | undefined>;
  setItem(key: string, value: string): unknown;
}

export interface Options extends Transport {
  /** What the owner accepts. */
  readonly pin: Pin;
  /** Whether the owner trusts the server with raw steps (`Central`); false by default. */
  readonly trusted?: boolean;
  /** How many reports this device sends at most, of all deployments together: each costs ε. 1 by default. */
  readonly reports?: number;
  /** Whether finished reports wait for the deadline too, so that nobody sees from the time who finished. */
  readonly hold?: boolean;
  /** Where reports wait; in memory by default. */
  readonly storage?: Store;
  /** Seconds since 1970. */
  readonly now?: () => number;
}

/** One person's episode. */
export interface Episode {
  /** Null if it is not collected. */
  readonly id: string | null;
  /** Whether it is learned from. */
  readonly collected: boolean;
  /** Until when the report is taken, in seconds since 1970. */
  readonly reportBy: number | null;
  /** Of the plan. */
  readonly version: number;
  /**
   * Says which state is reached, and the reward of the step before; returns what to do, null at the end.
   *
   * It is called H + 1 times, from the first state to the last one. If it throws `Unavailable`, the same again is safe.
   */
  step(state: number, reward?: number, signal?: AbortSignal): Promise<number | null>;
  /** Hides and sends the episode: what `step` has noted, or a trajectory that the app kept itself. */
  report(trajectory?: Trajectory, signal?: AbortSignal): Promise<void>;
}

export interface Client {
  /** Begins an episode; the same person gets the same one again while its batch is open. */
  start(deployment: string, person?: string, signal?: AbortSignal): Promise<Episode>;
  /** Sends all that is due and watches all deadlines; returns how many reports could not be sent. */
  flush(signal?: AbortSignal): Promise<number>;
  /** Erases an episode of this device: until its batch closes, its report too. */
  erase(id: string, signal?: AbortSignal): Promise<void>;
  /** Stops watching deadlines. What waits is kept. */
  close(): void;
}

/** What `report` of a kept episode is. Once it may have left the device it is fixed: never made again. */
const enum State {
  Absent,
  SentAbsent,
  Real,
}

/** An episode as the storage keeps it. */
interface Kept {
  readonly id: string;
  readonly token: string;
  readonly to: "server" | "shuffler";
  /** When the report is sent if nothing else happens. */
  readonly at: number;
  /** Empty when it is recorded, too late or erased. */
  report: string;
  state: State;
}

const MARGIN = 600; // seconds before the deadline, or a tenth of the time, in which absent reports are sent
const LATER = 60_000; // milliseconds until a report that could not be sent is tried again

/** What a start should give; a hostile server may give anything. */
interface Ticket {
  readonly id: string;
  readonly token: string;
  readonly collected: boolean;
  readonly report_by: number;
  readonly report_to: "server" | "shuffler";
  readonly plan: { readonly version: number; readonly policy: unknown; readonly encoder: unknown };
}

/** Returns a client. Nothing is sent before `start` or `flush`. */
export function connect(options: Options): Client {
  const { pin, trusted, reports = 1, hold, storage, fill, wait = sleep } = options;
  const { now = () => Date.now() / 1000 } = options;
  const closing = new AbortController();
  const watched = new Set<string>();
  const ask = asking(options);
  let last: Promise<unknown> = Promise.resolve();
  let held: string | undefined;

  const uniform = () => draws(1, fill)() / UNITS;

  /** Reads what is kept, changes it and writes it back, alone: among tabs too where the browser has locks. */
  function edit<T>(change: (all: Kept[]) => T): Promise<T> {
    const run = async () => {
      const all = JSON.parse((storage ? await storage.getItem("discreet") : held) ?? "[]") as Kept[];
      const found = change(all);
      held = JSON.stringify(all);
      await storage?.setItem("discreet", held);
      return found;
    };
    const locks = globalThis.navigator?.locks;
    const next = last.then(() => (locks ? (locks.request("discreet", run) as Promise<T>) : run()));
    last = next.catch(() => {});
    return next;
  }

  const find = (all: Kept[], wanted: string) => all.find(({ id }) => id === wanted);

  const finish = (wanted: string) =>
    edit((all) => {
      const kept = find(all, wanted)!;
      kept.report = "";
      kept.state ||= State.SentAbsent;
    });

  const due = ({ state, at }: Kept) => (state === State.Real && !hold) || now() >= at;

  /** Sends a report. From here on it is fixed: another one about the same episode would be hidden by other noise. */
  async function post(wanted: string, signal?: AbortSignal): Promise<void> {
    const { token, report, to } = await edit((all) => {
      const kept = find(all, wanted)!;
      kept.state ||= State.SentAbsent;
      return kept;
    });
    if (!report) return;
    let late: unknown;
    await ask("POST", to, `/${wanted}/report`, signal, { token, report }).catch((error) => {
      late = error;
      if (!(error instanceof Closed)) throw error; // it stays: it may succeed later
    });
    await finish(wanted);
    if (late) throw late;
  }

  async function flush(signal?: AbortSignal): Promise<number> {
    let failed = 0;
    for (const kept of await edit((all) => all.filter(({ report }) => report))) {
      watch(kept);
      if (due(kept)) await post(kept.id, signal).catch((error) => (failed += +(error instanceof Unavailable)));
    }
    signal?.throwIfAborted();
    return failed;
  }

  /** Sends a report at its time, as long as this client lives. */
  function watch({ id, at }: Kept): void {
    if (watched.has(id)) return;
    watched.add(id);
    const { signal } = closing;
    const run = async () => {
      while (now() < at) await wait(1000 * (at - now()), signal);
      while (await flush(signal)) await wait(LATER, signal);
    };
    run().catch(() => watched.delete(id)); // closed; what waits is kept
  }

  async function start(deployment: string, person?: string, signal?: AbortSignal): Promise<Episode> {
    // what is of these types is checked where it matters
    const ticket = (await ask("POST", "server", "", signal, { deployment, person })) as unknown as Ticket;
    const { id, token, collected, report_by: by, report_to: to } = ticket;
    const { policy, encoder: document, version } = record(ticket.plan) as unknown as Ticket["plan"];
    const states: number[] = [];
    const actions: number[] = [];
    const rewards: number[] = [];

    let act = async (h: number, state: number, _reward?: number, _signal?: AbortSignal): Promise<unknown> => {
      const row = record(record(policy)[h])[state];
      if (!Array.isArray(row)) return row;
      let left = uniform();
      let found: unknown;
      row.forEach((chance, action) => {
        if (chance > 0 && left >= 0) {
          found = action; // the last one that is possible, should rounding leave a rest
          left -= chance;
        }
      });
      return found;
    };
    let report = async (_trajectory: Trajectory, _signal?: AbortSignal): Promise<void> => {};

    if (collected) {
      check(/^\w[\w.-]*$/.test(id), "id must be a name"); // it becomes a part of a path
      const encoder = record(document).device ? fromDocument(document, pin) : null;
      const place = encoder && encoder.kind !== "questions" ? "shuffler" : "server";
      if (to !== place || !options[place]) throw new Refused(`report_to must be the app's ${place}`);
      if (encoder) {
        await edit((all) => {
          if (!find(all, id)) {
            if (all.length >= reports) throw new Refused(`reports must be at most ${reports}`);
            const at = by - Math.min(MARGIN, 0.1 * (by - now())) * (0.2 + 0.8 * uniform()); // not all at once
            all.push({ id, token, to, at, report: toWire(encoder.absent(fill)), state: State.Absent });
          }
          watch(find(all, id)!);
        });
        report = async (trajectory, stop) => {
          const ready = await edit((all) => {
            const kept = find(all, id)!;
            if (kept.state === State.SentAbsent) throw new Closed("the episode was closed as absent");
            if (kept.state === State.Absent) {
              kept.report = toWire(encoder.encode(trajectory, fill));
              kept.state = State.Real;
            }
            return due(kept);
          });
          if (ready) await post(id, stop);
        };
      } else {
        if (!trusted) throw new Refused("this server is not trusted with raw data");
        act = async (h, state, reward, stop) => {
          return (await ask("PUT", to, `/${id}/steps/${h + 1}`, stop, { token, state, reward })).action;
        };
      }
    }

    return {
      id,
      collected,
      reportBy: by,
      version,
      async step(state, reward, stop) {
        const h = states.length;
        check(h <= pin.horizon, `an episode has ${pin.horizon} steps`);
        personal("states", state, pin);
        if (h) personal("rewards", reward, pin);
        const action = await act(h, state, reward, stop);
        if (h < pin.horizon) actions.push(whole("action", action, 0, pin.actions - 1));
        states.push(state);
        if (h) rewards.push(reward!);
        return actions[h] ?? null;
      },
      report: (trajectory = { states, actions, rewards }, stop) => report(trajectory, stop),
    };
  }

  return {
    start,
    flush,
    async erase(id, signal) {
      const kept = await edit((all) => find(all, id));
      if (!kept) return;
      await ask("DELETE", "server", `/${id}`, signal, undefined, kept.token);
      await finish(id);
    },
    close: () => closing.abort(),
  };
}
