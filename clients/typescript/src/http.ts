/** Requests that may be repeated: everything the service does is idempotent. */
import { record, type Unknown } from "./checks.js";
import { draws, type Fill, UNITS } from "./draws.js";
import { Closed, InvalidToken, LiveError, type Problem, Unavailable } from "./errors.js";

export interface Transport {
  /** The service's address, chosen by the app: without a slash at the end. */
  readonly server: string;
  /** The shuffler's address: chosen by the app, never by the server. Bits go there or nowhere. */
  readonly shuffler?: string;
  /** A key of the service with the scope `client`; the shuffler never sees it. */
  readonly key?: string;
  /** A key of the shuffler with that scope; the service never sees it. */
  readonly shufflerKey?: string;
  /** The browser's by default. */
  readonly fetch?: typeof fetch;
  /** Waits so many milliseconds; rejects if it is aborted. */
  readonly wait?: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
  /** How often a request is repeated; 5 times by default. */
  readonly retries?: number;
  /** Milliseconds that one try may take; 30,000 by default. */
  readonly timeout?: number;
  /** For tests: where randomness comes from, instead of WebCrypto. */
  readonly fill?: Fill;
}

const FIRST = 500; // milliseconds that the first repetition waits at most; then twice as long, and so on
const LONGEST = 30_000;

export const sleep: NonNullable<Transport["wait"]> = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, Math.min(milliseconds, 2 ** 31 - 1)); // a timer takes 31 bits
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });

/** Returns the error for a status. Its message is ours: what a server says may end up in nobody's log. */
function failure(status: number, said: object): LiveError {
  const repeat = status >= 500 || status === 429 || status === 408;
  const denied = status === 401 || status === 403;
  const kind = repeat ? Unavailable : denied ? InvalidToken : status === 410 ? Closed : LiveError;
  return new kind(`the service answered ${status}`, { ...said, status } as Problem);
}

/** Returns a function that asks: it repeats with exponential backoff and full jitter while that is safe and useful. */
export function asking({ fetch: send = fetch, wait = sleep, retries = 5, timeout = 30_000, fill, key, shufflerKey, ...bases }: Transport) {
  const keys = { server: key, shuffler: shufflerKey };
  return async (
    method: string,
    to: "server" | "shuffler",
    path: string,
    signal?: AbortSignal,
    body?: object,
    token?: string,
  ): Promise<Unknown> => {
    for (let tries = 0; ; tries++) {
      let error: LiveError;
      const pause = (Math.min(FIRST * 2 ** tries, LONGEST) * draws(1, fill)()) / UNITS;
      try {
        const limit = AbortSignal.timeout(timeout);
        const answer = await send(`${bases[to]}/v1/episodes${path}`, {
          method,
          headers: {
            "Content-Type": "application/json",
            ...(keys[to] && { Authorization: `Bearer ${keys[to]}` }),
            ...(token && { "Discreet-Token": token }),
          },
          body: body ? JSON.stringify(body) : null,
          signal: signal ? AbortSignal.any([signal, limit]) : limit,
          cache: "no-store",
          credentials: "omit",
          redirect: "error", // nobody is sent elsewhere with a report in hand
        });
        if (answer.ok) return record(await answer.json());
        error = failure(answer.status, await answer.json().catch(() => ({})));
      } catch {
        signal?.throwIfAborted();
        error = new Unavailable("no answer");
      }
      if (!(error instanceof Unavailable) || tries >= retries) throw error;
      await wait(pause, signal);
    }
  };
}
