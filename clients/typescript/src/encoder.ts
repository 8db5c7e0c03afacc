/** What every encoder can do. */
import { checkTrajectory, type Sizes, type Trajectory } from "./checks.js";
import { draws, type Fill } from "./draws.js";
import type { Report } from "./wire.js";

export type Kind = "questions" | "binomial" | "first-visits";

export interface Encoder {
  readonly kind: Kind;
  readonly sizes: Sizes;
  /** How many questions may be asked, or how many counters there are. */
  readonly asked: number;
  /** Bits of a report: as many whatever a person did. */
  readonly bits: number;
  /** Draws that `encode` takes, and `absent`. */
  readonly draws: readonly [number, number];
  /** Returns the report of an episode; `toWire` makes it text. */
  encode(trajectory: Trajectory, fill?: Fill): Report;
  /** Returns the report of somebody who did nothing. */
  absent(fill?: Fill): Report;
  /** Whether a report is proven to be (ε, δ)-private: by itself, or among the noise of so many users. */
  hides(epsilon: number, delta: number, users: number): boolean;
}

/** Returns an encoder; `run` makes the report of an episode, or of nobody, from as many draws as were announced. */
export const encoder = (
  kind: Kind,
  sizes: Sizes,
  asked: number,
  bits: number,
  taken: readonly [number, number],
  run: (draw: () => number, trajectory?: Trajectory) => Report,
  hides: Encoder["hides"],
): Encoder => ({
  kind,
  sizes,
  asked,
  bits,
  draws: taken,
  encode: (trajectory, fill) => {
    checkTrajectory(trajectory, sizes);
    return run(draws(taken[0], fill), trajectory);
  },
  absent: (fill) => run(draws(taken[1], fill)),
  hides,
});
