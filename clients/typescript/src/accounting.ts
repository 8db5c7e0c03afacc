/**
 * What a shuffled batch of one-bit messages hides: a proof that it is (ε, δ)-private, or none.
 *
 * A counter shows a person's bits and the noise bits of all. If a person is replaced, counters move, and which movement is
 * worst is known (discreet.privacy.binomial). The loss L of a counter has finitely many values, so its moments are sums.
 * Moments of independent counters multiply, and for every θ > 0
 *
 *     δ ≤ E[(1 − e^(ε−L))⁺] ≤ E[e^(θ(L−ε))] · θ^θ / (1+θ)^(1+θ),
 *
 * to which the probability of infinite losses is added. This asks for 3 to
 * 20 % more ε than the server's own account, which composes numerically and would not fit into a small page.
 *
 * Reference: Canonne, Kamath and Steinke (2020), Proposition 12, with θ = α − 1.
 */
import { UNITS } from "./draws.js";

const SPARE = 1e-4; // share of δ that is given up with the tails of the noise
const ROUNDING = 1e-6; // in ln δ: sums of 10^5 terms err by less
const LOSS = 1e-11; // more than a loss errs by: ratios of neighbours share their errors

const { ceil, exp, floor, log, max, min, sqrt } = Math;

/** How far a sum of bits strays from its mean, but for e^-rare: Bernstein's inequality. */
const reach = (variance: number, rare: number): number => rare / 3 + sqrt(rare ** 2 / 9 + 2 * variance * rare);

/** Returns the probabilities of Bin(N, p) near its mean, from above: they add up to 1 although tails are cut off. */
function binomialLaw(N: number, p: number, rare: number): number[] {
  const far = reach(N * p * (1 - p), rare);
  const first = max(0, ceil(N * p - far));
  const last = min(N, floor(N * p + far));
  const mode = min(last, floor((N + 1) * p));
  const law: number[] = [];
  let total = (law[mode - first] = 1);
  const odds = p / (1 - p);
  for (let x = mode; x < last; x++) total += law[x + 1 - first] = ((law[x - first]! * (N - x)) / (x + 1)) * odds;
  for (let x = mode; x > first; x--) total += law[x - 1 - first] = (law[x - first]! * x) / (N - x + 1) / odds;
  return law.map((mass) => mass / total);
}

/** Returns the probabilities of the difference of two such variables, from −k to k. */
function difference(one: readonly number[], k: number): number[] {
  const half = Array.from({ length: min(k + 1, one.length) }, (_, d) =>
    one.reduce((sum, mass, x) => (x < d ? sum : sum + mass * one[x - d]!), 0),
  );
  return [...half.slice(1).reverse(), ...half];
}

/**
 * Returns whether noise hides that one person is replaced.
 *
 * With `shift` the noise of a counter is Bin(trials, threshold/2^53), and `moved` counters go up by it and as many down.
 * Without, it is the difference of two such variables, and `moved` counters go either way by one.
 */
export function hides(
  trials: number,
  threshold: number,
  shift: number,
  moved: number,
  epsilon: number,
  delta: number,
): boolean {
  const p = threshold / UNITS;
  const variance = p * (1 - p);
  // of much noise only some is looked at, so that this takes a moment: less noise hides less
  const N = min(trials, floor((shift ? 1e7 : 1e5) / variance));
  if (!(delta > 0 && N > 0)) return false;
  const rare = log((4 * moved) / (SPARE * delta));
  // What is missing of the second law is nothing beside what is used of it. One more value than is likely: the last
  // ones move there.
  const law = shift
    ? binomialLaw(N, p, rare)
    : difference(binomialLaw(N, p, 2 * rare + 46), floor(reach(2 * N * variance, rare)) + 1);
  // the second bit of a pair may be off 1 − p by a unit: a factor of e^{N/(T−1)} at most in any probability of a counter
  const off = shift ? 0 : (moved * N) / (threshold - 1);
  let left = delta * (exp(-off) - SPARE);
  const counters = (shift ? [shift, -shift] : [1]).map((by) =>
    law.flatMap((mass, x) => {
      const other = law[x + by];
      if (mass && other) return [[log(mass / other) + LOSS, mass] as const];
      left -= moved * mass; // an infinite loss, or one too far out
      return [];
    }),
  );
  const logDelta = (order: number): number =>
    counters.reduce((sum, losses) => {
      const top = losses.reduce((most, [loss]) => max(most, order * loss), -Infinity);
      return sum + moved * (top + log(losses.reduce((all, [loss, mass]) => all + mass * exp(order * loss - top), 0)));
    }, 0) +
    order * (log(order / (1 + order)) - epsilon + 2 * off) -
    log(1 + order);
  // any θ is sound: one of these is good
  for (let order = 0.01; order < 1e4; order *= 1.1) if (logDelta(order) + ROUNDING <= log(left)) return true;
  return false;
}
