/** What a device's owner accepts at most, and how an encoder that was sent is held against it. */
import { binomial, firstVisits } from "./bits.js";
import { check, flag, LARGEST, list, record, type Sizes, whole } from "./checks.js";
import type { Encoder, Kind } from "./encoder.js";
import { Refused } from "./errors.js";
import { questions } from "./questions.js";

/** What the owner accepts. The app knows its own sizes: a server does not choose them. */
export interface Pin extends Sizes {
  /** The largest ε of a report. */
  readonly epsilon: number;
  /** The largest δ; 0 by default. */
  readonly delta?: number;
  /** For bits: how many people of a batch add their noise, as the owner trusts the shuffler to see to. */
  readonly users?: number;
  /** Kinds that are accepted; all by default. Bits need `users`, too. */
  readonly kinds?: readonly Kind[];
  /** The largest number of questions that may be asked, or of counters that bits are about; 65536 by default. */
  readonly questions?: number;
  /** The largest number of bits of a report; 2^20 by default. */
  readonly messages?: number;
}

const KINDS = { questions, binomial, "first-visits": firstVisits };
const NAMES = ["states", "actions", "horizon"] as const;

/** Throws unless an encoder hides as much as its owner asks for, about what the owner asks for. */
export function checkPin(encoder: Encoder, pin: Pin): void {
  const { epsilon, delta = 0, users = 0, questions: asked = 65536, messages = 2 ** 20, kinds = Object.keys(KINDS) } = pin;
  const refuse = (holds: boolean, name: string, bound: unknown) => {
    if (!holds) throw new Refused(`${name} must be ${bound}`);
  };
  for (const name of NAMES) refuse(encoder.sizes[name] === pin[name], name, pin[name]);
  refuse(kinds.includes(encoder.kind), "kind", kinds);
  refuse(encoder.asked <= asked, "questions", `at most ${asked}`);
  refuse(encoder.bits <= messages, "messages", `at most ${messages}`);
  refuse(encoder.hides(epsilon, delta, users), "epsilon", `at most ${epsilon} with delta=${delta}, users=${users}`);
}

/**
 * Returns the encoder of a document that `discreet.privatizers.device` wrote, parsed, if all of it is within bounds.
 *
 * Without a pin anything well-formed is accepted: for tests, and for who wrote the encoder.
 */
export function fromDocument(given: unknown, pin?: Pin): Encoder {
  const { kind, ...document } = record(given);
  const device = record(document.device);
  const layout = record(document.layout);
  whole("format", device.format, 1, 1);
  const [states, actions, horizon] = NAMES.map((name) => whole(name, layout[name], 1, LARGEST)) as [number, number, number];
  whole("cells", states * actions * horizon, 1, LARGEST);
  check(Object.hasOwn(KINDS, kind as Kind), "kind must be known");
  const made = KINDS[kind as Kind]({ states, actions, horizon }, flag("stationary", layout.stationary), device, layout);
  whole("messages", made.bits, 1, LARGEST);
  // that both sides take as many draws is what agreeing bit for bit rests on
  list("draws", device.draws, 2, 2, (found, i) => whole("draws", found, made.draws[i]!, made.draws[i]!));
  if (pin) checkPin(made, pin);
  return made;
}
