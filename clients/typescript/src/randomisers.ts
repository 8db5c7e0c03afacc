/** How a person hides one value out of k, from integer thresholds alone; the same decisions as in Python. */
import { check, record, whole } from "./checks.js";
import { UNITS } from "./draws.js";

/**
 * How to hide a value, and what it costs.
 *
 * `decide` returns a 0 or 1 for every value, from k draws. `loss` is the largest logarithm of the ratio of any report's
 * probabilities under two values, rounded up.
 */
export type Randomiser = readonly [decide: (value: number, draw: () => number) => Uint8Array, loss: number];

/** |ln(over/under)|, above what rounding can take away: three roundings in the ratio, and the logarithm's. */
function logRatio(over: number, under: number): number {
  const found = Math.abs(Math.log(over / under));
  return found + (1 + found) * 2 ** -51;
}

/** A bit a value: the true one is 1 with probability p, each other one with q. Two values differ in two bits. */
const unary = (size: number, p: number, q: number): Randomiser => [
  (value, draw) => Uint8Array.from({ length: size }, (_, i) => +(draw() < (i === value ? p : q))),
  logRatio(p * (UNITS - q), (UNITS - p) * q),
];

/** A set of `chosen` values: it contains the true one with probability p, and is uniform otherwise. */
const subset = (size: number, p: number, chosen: number): Randomiser => [
  (value, draw) => {
    const bits = new Uint8Array(size);
    bits[value] = +(draw() < p);
    let needed = chosen - bits[value]!;
    let left = size - 1;
    bits.forEach((_, other) => {
      if (other === value) return;
      // selection sampling, with the very products that Python compares: both round them to 53 bits
      if ((draw() / UNITS) * left-- < needed) {
        bits[other] = 1;
        needed--;
      }
    });
    return bits;
  },
  // Sets with the true value, comb(k−1, d−1) of them, against those without, comb(k−1, d). What is added is the most
  // that rounded products can change: k decisions of probability at least 1/k, off by at most 2^-52 each.
  logRatio(p * (size - chosen), (UNITS - p) * chosen) + size ** 2 * 2 ** -50,
];

/** Returns the randomiser that a document describes, which must have `size` values. */
export function randomiser(document: unknown, size: number): Randomiser {
  const { name, p, q, chosen, size: given } = record(document);
  whole("size", given, size, size);
  const threshold = whole("p", p, 1, UNITS - 1);
  if (name === "unary") return unary(size, threshold, whole("q", q, 1, UNITS - 1));
  check(name === "subset" || name === "response", "randomiser must be known");
  return subset(size, threshold, whole("chosen", chosen, 1, name === "subset" ? size - 1 : 1));
}
