/** One-bit messages, which hide a person only among others: they must go to a shuffler that takes them apart. */
import { hides } from "./accounting.js";
import { cellOf, check, firstVisit, flag, LARGEST, list, type Sizes, type Trajectory, type Unknown, whole } from "./checks.js";
import { UNITS } from "./draws.js";
import { type Encoder, encoder, type Kind } from "./encoder.js";
import type { BitsReport } from "./wire.js";

/** Counts how many data bits of each counter are 1. */
type Count = (trajectory: Trajectory, draw: () => number, ones: Uint32Array) => void;

/**
 * What both kinds have in common: counters, each with data bits and then noise bits.
 *
 * @param size How many counters there are.
 * @param shift Data bits of a counter; 0 is one, with pairs of noise bits, of probability p and 1 − p.
 * @param moved How many counters move if a person is replaced: see `hides`.
 * @param rounding Draws that round rewards.
 */
function bits(
  kind: Kind,
  sizes: Sizes,
  { p, q, noise_bits }: Unknown,
  size: number,
  shift: number,
  moved: number,
  rounding: number,
  count: Count,
): Encoder {
  const noise = [whole("p", p, 2, UNITS / 2)];
  if (!shift) noise.push(whole("q", q, UNITS - noise[0]!, UNITS - noise[0]! + 1)); // 1 − p, to the next draw
  const pairs = whole("noise_bits", noise_bits, 1, LARGEST);
  const data = shift || 1;
  const drawn = size * pairs * noise.length;
  const total = size * data + drawn;
  const run = (draw: () => number, trajectory?: Trajectory): BitsReport => {
    const ones = new Uint32Array(size);
    const made = new Uint8Array(total);
    let at = 0;
    if (trajectory) count(trajectory, draw, ones);
    for (const counted of ones) {
      made.fill(1, at, at + counted);
      at += data;
      for (let i = pairs; i--; ) for (const threshold of noise) made[at++] = +(draw() < threshold);
    }
    return { bits: made };
  };
  return encoder(kind, sizes, size, total, [rounding + drawn, drawn], run, (epsilon, delta, users) =>
    hides(users * pairs, noise[0]!, shift, moved, epsilon, delta),
  );
}

/** Bits about the counts of all cells: visits, transitions and rewards. */
export function binomial(sizes: Sizes, stationary: boolean, device: Unknown, { layer, visits, rewards }: Unknown): Encoder {
  const { states: S, actions: A, horizon: H } = sizes;
  const first = layer === null ? 0 : whole("layer", layer, 0, H - 1);
  const counted = layer === null ? H : 1;
  const n = +flag("visits", visits);
  const r = +flag("rewards", rewards);
  const pooled = stationary || counted === 1; // one set of counters, for all steps that are counted
  const steps = pooled ? 1 : H;
  const cells = steps * S * A;
  const count: Count = (trajectory, draw, ones) => {
    const touch = (place: (cell: number, h: number) => number, value: (h: number) => number) => {
      for (let h = first; h < first + counted; h++) {
        // 1 stays 1, a real reward is rounded at random
        ones[place(cellOf(trajectory, h, sizes, pooled), h)]! += +(draw() / UNITS < value(h));
      }
    };
    const one = () => 1;
    if (n) touch((cell) => cell, one);
    touch((cell, h) => n * cells + cell * S + trajectory.states[h + 1]!, one);
    if (r) touch((cell) => (n + S) * cells + cell, (h) => trajectory.rewards[h]!);
  };
  const families = 1 + n + r;
  const shift = stationary ? counted : 1;
  return bits("binomial", sizes, device, cells * (S + n + r), shift, families * steps, families * counted, count);
}

/** Bits about the first visits to public cells: whether there was one, where it led, and whether it was rewarded. */
export function firstVisits(sizes: Sizes, stationary: boolean, device: Unknown): Encoder {
  const { states: S, actions: A, horizon: H } = sizes;
  const most = S * A * (stationary ? 1 : H);
  const cells = list("cells", device.cells, 1, most, (cell) => whole("cells", cell, 0, most - 1));
  const J = cells.length;
  check(new Set(cells).size === J, "cells must differ");
  const count: Count = (trajectory, draw, ones) =>
    cells.forEach((cell, j) => {
      const start = j * (S + 2);
      const k = draw(); // for every cell, visited or not
      const h = firstVisit(trajectory, cell, sizes, stationary);
      if (h < 0) return;
      ones[start] = ones[start + 1 + trajectory.states[h + 1]!] = 1;
      ones[start + S + 1] = +(k / UNITS < trajectory.rewards[h]!);
    });
  return bits("first-visits", sizes, device, J * (S + 2), 0, 3 * J, J, count);
}
