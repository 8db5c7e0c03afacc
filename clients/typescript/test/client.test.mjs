// From start to report against a service that fails, lies and is hostile; nothing waits for a real clock.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Closed, connect, InvalidInput, InvalidPersonalData, InvalidToken, LiveError, Refused, Unavailable } from "../dist/index.js";

const { documents } = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8"));
const local = documents[0]; // unary at ε = 1
const bits = documents.find(({ kind, device }) => kind === "first-visits" && device.p > 2 ** 50);
const SERVER = "https://service.example";
const SHUFFLER = "https://shuffler.example";
const CANARY = "canary-7f3a";

const json = (status, body) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": status < 300 ? "application/json" : "application/problem+json" } });
const problem = (status, detail = CANARY) => json(status, { type: "about:blank", title: "refused", status, detail });

function policyOf({ states, horizon }) {
  return Array.from({ length: horizon }, () => Array(states).fill(0));
}

/** A service in memory. `faults` are tried first: each may answer instead of it, or throw. */
function world(document = local, { ticket = {}, faults = [], ...options } = {}) {
  const { states, actions, horizon } = document.layout;
  const seen = [];
  const waits = [];
  const clock = { now: 1000 };
  let timers = [];
  const wait = (milliseconds, signal) => {
    waits.push(milliseconds);
    if (milliseconds < 40_000) return Promise.resolve();
    return new Promise((resolve, reject) => {
      timers.push({ at: clock.now + milliseconds / 1000, resolve });
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  };
  const fetch = async (url, { method, headers, body, signal, redirect, credentials }) => {
    assert.deepEqual([redirect, credentials], ["error", "omit"]);
    signal?.throwIfAborted();
    const asked = { url, method, headers, body: body && JSON.parse(body) };
    seen.push(asked);
    const fault = faults.shift();
    const answer = fault && (await fault(asked));
    if (answer) return answer;
    if (url.endsWith("/v1/episodes")) {
      const to = document.kind === "questions" ? "server" : "shuffler";
      const plan = { version: 3, policy: policyOf(document.layout), encoder: document };
      const given = { id: "steps.3.7", token: "3.7.secret", collected: true, report_by: 87_400, report_to: to, plan };
      return json(201, typeof ticket === "function" ? ticket(given) : { ...given, ...ticket });
    }
    if (url.includes("/steps/")) return json(200, { action: asked.body.state % actions });
    return json(200, { status: "recorded" });
  };
  const pin = { states, actions, horizon, epsilon: 1, ...(to(document) && { users: 1e5, delta: 1e-5 }), ...options.pin };
  const client = connect({ server: SERVER, shuffler: SHUFFLER, key: "dk_key", fetch, wait, now: () => clock.now, ...options, pin });
  const pass = async (seconds) => {
    clock.now += seconds;
    for (const timer of timers.filter(({ at }) => at <= clock.now)) timer.resolve();
    timers = timers.filter(({ at }) => at > clock.now);
    for (let i = 0; i < 50; i++) await null;
  };
  const sent = () => seen.filter(({ url }) => url.endsWith("/report"));
  return { client, seen, sent, waits, clock, pass, faults };
}

const to = ({ kind }) => kind !== "questions";
const down = () => {
  throw new TypeError(CANARY);
};

async function played(client, document = local, person = "person") {
  const episode = await client.start("steps", person);
  for (let h = 0; h <= document.layout.horizon; h++) await episode.step(0, h ? 1 : undefined);
  return episode;
}

test("start, play, report: local answers go to the server, with the key", async () => {
  const { client, seen } = world();
  const episode = await played(client);
  await episode.report();
  assert.deepEqual(seen.map(({ method, url }) => [method, url]), [
    ["POST", `${SERVER}/v1/episodes`],
    ["POST", `${SERVER}/v1/episodes/steps.3.7/report`],
  ]);
  assert.deepEqual(seen[0].body, { deployment: "steps", person: "person" });
  assert.equal(seen[1].body.token, "3.7.secret");
  assert.match(seen[1].body.report, /^1\.answer\.[\w-]+$/);
  assert.ok(seen.every(({ headers }) => headers.Authorization === "Bearer dk_key"));
  client.close();
});

test("bits go to the shuffler that the app names, without the server's key", async () => {
  const { client, sent } = world(bits, { shufflerKey: "dk_other", pin: { epsilon: 5 } });
  await (await played(client, bits)).report();
  assert.equal(sent()[0].url, `${SHUFFLER}/v1/episodes/steps.3.7/report`);
  assert.equal(sent()[0].headers.Authorization, "Bearer dk_other");
  assert.match(sent()[0].body.report, /^1\.bits\./);
  client.close();
});

test("a report is drawn once: what is repeated is the same text, whatever the service answers", async () => {
  for (const fault of [down, () => problem(503), () => problem(500), () => problem(429), () => new Response("{", { status: 200 })]) {
    const { client, sent, waits, faults } = world();
    const episode = await played(client);
    faults.push(...Array(5).fill(fault));
    await episode.report();
    assert.equal(sent().length, 6);
    assert.equal(new Set(sent().map(({ body }) => body.report)).size, 1);
    const pauses = waits.filter((pause) => pause < 40_000);
    pauses.forEach((pause, i) => assert.ok(pause >= 0 && pause <= Math.min(500 * 2 ** i, 30_000)));
    await episode.report(); // recorded: nothing more leaves
    assert.equal(sent().length, 6);
    client.close();
  }
});

test("offline: the report waits in the storage, survives a restart, and is sent unchanged", async () => {
  const held = new Map();
  const storage = { getItem: async (key) => held.get(key) ?? null, setItem: async (key, value) => void held.set(key, value) };
  const first = world(local, { storage, retries: 1 });
  const episode = await played(first.client);
  first.faults.push(down, down);
  await assert.rejects(episode.report(), Unavailable);
  first.client.close();
  const second = world(local, { storage });
  const again = await second.client.start("steps", "person"); // the same ticket
  await again.report({ states: [1, 1, 1], actions: [0, 0], rewards: [0, 0] }); // is not hidden a second time
  assert.equal(second.sent().length, 1);
  assert.equal(second.sent()[0].body.report, first.sent()[0].body.report);
  assert.equal(await second.client.flush(), 0);
  assert.equal(second.sent().length, 1);
  assert.ok(!held.get("discreet").includes("1.answer."));
  second.client.close();
});

test("whoever does not finish is reported as absent shortly before the deadline, and not twice", async () => {
  const { client, sent, pass, clock } = world();
  const episode = await client.start("steps", "person");
  await episode.step(0);
  await pass(85_700 - clock.now);
  assert.equal(sent().length, 0);
  await pass(87_399 - clock.now);
  assert.equal(sent().length, 1);
  assert.match(sent()[0].body.report, /^1\.answer\.[\w-]{8}$/);
  await episode.step(0, 1);
  await episode.step(0, 1);
  await assert.rejects(episode.report(), Closed); // recorded as absent: nothing else leaves
  assert.equal(sent().length, 1);
  client.close();
});

test("an absent report that may have arrived is never replaced", async () => {
  const { client, sent, pass, clock, faults } = world(local, { retries: 0 });
  const episode = await played(client);
  faults.push(down);
  await pass(87_399 - clock.now);
  assert.equal(sent().length, 1);
  await assert.rejects(episode.report(), Closed);
  await pass(61); // and is tried again later, as it is
  assert.equal(sent().length, 2);
  assert.equal(sent()[0].body.report, sent()[1].body.report);
  client.close();
});

test("hold: finished reports leave at the time of the absent ones", async () => {
  const { client, sent, pass, clock } = world(local, { hold: true });
  await (await played(client)).report();
  assert.equal(sent().length, 0);
  await pass(87_399 - clock.now);
  assert.equal(sent().length, 1);
  client.close();
});

test("central: the server plays, if it is trusted with raw steps, and only then", async () => {
  const raw = (given) => ({ ...given, report_to: "server", plan: { ...given.plan, encoder: { kind: "raw", layout: {}, parameters: {} } } });
  const { client, seen, faults } = world(local, { trusted: true, ticket: raw });
  const episode = await client.start("steps", "person");
  faults.push(down); // repeated
  assert.equal(await episode.step(2), 0);
  assert.equal(await episode.step(1, 0.5), 0);
  assert.equal(await episode.step(0, 1), null);
  await episode.report();
  assert.deepEqual(seen.slice(1).map(({ method, url, body }) => [method, url.slice(SERVER.length), body]), [
    ["PUT", "/v1/episodes/steps.3.7/steps/1", { token: "3.7.secret", state: 2 }],
    ["PUT", "/v1/episodes/steps.3.7/steps/1", { token: "3.7.secret", state: 2 }],
    ["PUT", "/v1/episodes/steps.3.7/steps/2", { token: "3.7.secret", state: 1, reward: 0.5 }],
    ["PUT", "/v1/episodes/steps.3.7/steps/3", { token: "3.7.secret", state: 0, reward: 1 }],
  ]);
  await assert.rejects(world(local, { ticket: raw }).client.start("steps", "person"), Refused);
});

test("who is not collected plays and sends nothing", async () => {
  const { client, seen } = world(local, { ticket: { id: null, token: null, collected: false, report_by: null } });
  const episode = await played(client);
  assert.equal(episode.collected, false);
  await episode.report();
  assert.equal(seen.length, 1);
});

test("a hostile server is refused before anything is drawn or sent", async () => {
  const change = (path, value) => (given) => {
    const copy = structuredClone(given);
    let place = copy;
    for (const key of path.slice(0, -1)) place = place[key];
    place[path.at(-1)] = value;
    return copy;
  };
  const device = ["plan", "encoder", "device"];
  const cases = {
    "a weaker encoder": change([...device, "randomisers", 0, "q"], Math.floor(2 ** 53 / (Math.exp(1.01) + 1))),
    "one that tells the truth": change([...device, "randomisers", 1, "p"], 2 ** 53 - 1),
    "one that lies upside down": change([...device, "randomisers", 1, "q"], 2 ** 53 - 1),
    "other sizes": change(["plan", "encoder", "layout", "horizon"], 5),
    "raw data": change(["plan", "encoder"], { kind: "raw" }),
    "no encoder": change(["plan", "encoder"], null),
    "another kind": change(["plan", "encoder"], bits),
    "another address": change(["report_to"], "https://evil.example"),
    "answers for the shuffler": change(["report_to"], "shuffler"),
    "an id that leaves the path": change(["id"], "../../admin"),
  };
  for (const [name, ticket] of Object.entries(cases)) {
    const { client, sent } = world(local, { ticket, fill: undefined });
    await assert.rejects(client.start("steps", "person"), InvalidInput, name);
    assert.equal(sent().length, 0);
    assert.equal(await client.flush(), 0);
    client.close();
  }
  const none = { ...world(bits, { pin: { epsilon: 5 }, ticket: { report_to: "server" } }) };
  await assert.rejects(none.client.start("steps", "person"), Refused, "bits for the server");
  for (const pin of [{ epsilon: 1e-3 }, { epsilon: 5, users: 3 }, { epsilon: 5, users: 0 }, { epsilon: 5, delta: 0 }, { epsilon: 5, kinds: ["questions"] }]) {
    await assert.rejects(world(bits, { pin }).client.start("steps", "person"), Refused, JSON.stringify(pin));
  }
  for (const pin of [{ questions: 5 }, { messages: 3 }, { epsilon: NaN }, { epsilon: -1 }]) {
    await assert.rejects(world(local, { pin }).client.start("steps", "person"), Refused, JSON.stringify(pin));
  }
  await assert.rejects(world(bits, { shuffler: undefined, pin: { epsilon: 5 } }).client.start("steps", "person"), Refused);
});

test("new tickets do not make a device report more often than its owner said", async () => {
  let n = 0;
  const { client } = world(local, { reports: 2, ticket: (given) => ({ ...given, id: `steps.3.${n++}` }) });
  await (await played(client)).report();
  await (await played(client)).report();
  await assert.rejects(client.start("steps", "person"), Refused);
  client.close();
});

test("policies: actions, probabilities through WebCrypto, and none that does not fit", async () => {
  const wide = documents.find(({ kind, layout }) => kind === "questions" && layout.actions === 3 && layout.horizon === 2);
  const policy = Array(2).fill([[0, 0.25, 0.75]]);
  const { client } = world(wide, { reports: 1e6, pin: { epsilon: 40 }, ticket: (given) => ({ ...given, plan: { ...given.plan, policy } }) });
  const counts = [0, 0, 0];
  for (let i = 0; i < 2000; i++) counts[await (await client.start("steps")).step(0)]++;
  assert.equal(counts[0], 0);
  assert.ok(Math.abs(counts[1] - 500) < 6.2 * Math.sqrt(375)); // a false alarm in 10^9
  client.close();
  for (const bad of [null, [], [[5], [5]], [[-1], [0]], [[[0, 0, 0]], [0]], [["1"], [0]], [[[1, 0, 0, 0].slice(4)], [0]]]) {
    const other = world(wide, { pin: { epsilon: 40 }, ticket: (given) => ({ ...given, plan: { ...given.plan, policy: bad } }) });
    const episode = await other.client.start("steps");
    await assert.rejects(episode.step(0), InvalidInput, JSON.stringify(bad));
    other.client.close();
  }
});

test("errors are classes; problems are parsed; messages hold nobody's words but ours", async () => {
  for (const [status, kind] of [[410, Closed], [401, InvalidToken], [403, InvalidToken], [422, LiveError], [413, LiveError], [404, LiveError], [503, Unavailable]]) {
    const { client, faults } = world(local, { retries: 0 });
    const episode = await played(client);
    faults.push(() => problem(status));
    await assert.rejects(episode.report(), (error) => {
      assert.ok(error instanceof kind && error instanceof LiveError);
      assert.deepEqual([error.problem.status, error.problem.title, error.problem.detail], [status, "refused", CANARY]);
      assert.ok(![error.message, error.stack, String(error.cause)].some((text) => /canary|secret|example|person|1\.answer/.test(text.replace(/\n.*/gs, ""))));
      return true;
    });
    client.close();
  }
  const { client, sent } = world();
  const episode = await client.start("steps", "person");
  await assert.rejects(episode.step(99), InvalidPersonalData);
  await episode.step(0);
  await assert.rejects(episode.step(0), InvalidPersonalData); // the reward is missing
  await assert.rejects(episode.step(0, 1.5), InvalidPersonalData);
  await assert.rejects(episode.report(), InvalidPersonalData); // not finished
  assert.equal(sent().length, 0);
  client.close();
});

test("a late report is closed, and not sent again", async () => {
  const { client, faults, sent } = world();
  const episode = await played(client);
  faults.push(() => problem(410));
  await assert.rejects(episode.report(), Closed);
  assert.equal(await client.flush(), 0);
  assert.equal(sent().length, 1);
  client.close();
});

test("an aborted report stays, and goes out with the next flush", async () => {
  const { client, faults, sent } = world();
  const episode = await played(client);
  const stop = new AbortController();
  faults.push(() => {
    stop.abort(new Error("enough"));
    throw new TypeError("aborted");
  });
  await assert.rejects(episode.report(undefined, stop.signal), /enough/);
  assert.equal(await client.flush(), 0);
  assert.equal(sent().length, 2);
  assert.equal(sent()[0].body.report, sent()[1].body.report);
  client.close();
});

test("erasure shows the token, and stops what waits", async () => {
  const { client, seen, sent, pass, clock } = world();
  await client.start("steps", "person");
  await client.erase("steps.3.7");
  const last = seen.at(-1);
  assert.deepEqual([last.method, last.url, last.headers["Discreet-Token"]], ["DELETE", `${SERVER}/v1/episodes/steps.3.7`, "3.7.secret"]);
  await pass(90_000 - clock.now);
  assert.equal(sent().length, 0);
  await client.erase("unknown");
  client.close();
});

test("without WebCrypto nothing is drawn at all", async () => {
  const { client } = world(local, {
    fill: () => {
      throw new Error("no randomness");
    },
  });
  await assert.rejects(client.start("steps", "person"), /no randomness/);
});
