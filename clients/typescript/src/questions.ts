/** One question about one cell, drawn independently of the data, and its answer through a randomiser. */
import { firstVisit, list, type Sizes, type Trajectory, type Unknown, whole } from "./checks.js";
import { UNITS } from "./draws.js";
import { type Encoder, encoder } from "./encoder.js";
import { randomiser } from "./randomisers.js";
import type { AnswerReport } from "./wire.js";

/**
 * Returns an encoder that answers one question: local DP, it trusts nobody.
 *
 * Questions are numbered: all cells for the next state, then all cells for the reward; "none" is the last answer.
 */
export function questions(sizes: Sizes, stationary: boolean, device: Unknown): Encoder {
  const { states: S, actions: A, horizon: H } = sizes;
  const cells = S * A * (stationary ? 1 : H);
  const asked = 2 * cells;
  let before = 0;
  // T_j: the draw k asks question number #{j: T_j ≤ k}
  const thresholds = list("questions", device.questions, asked, asked, (found) => (before = whole("questions", found, before, UNITS)));
  whole("questions", before, UNITS, UNITS); // the last one: every draw asks something
  const answers = [S + 1, 3] as const;
  const hiding = list("randomisers", device.randomisers, 2, 2, (found, i) => randomiser(found, answers[i]!));
  const width = Math.max(...answers);

  const run = (draw: () => number, trajectory?: Trajectory): AnswerReport => {
    const drawn = Array.from({ length: width + 2 }, draw); // as many for everybody
    const question = thresholds.findIndex((T) => T > drawn[0]!);
    const about = +(question >= cells);
    const h = trajectory ? firstVisit(trajectory, question % cells, sizes, stationary) : -1;
    const support = new Uint8Array(width);
    let i = 2;
    let answer = answers[about]! - 1;
    if (h >= 0) answer = about ? +(drawn[1]! / UNITS < trajectory!.rewards[h]!) : trajectory!.states[h + 1]!;
    support.set(hiding[about]![0](answer, () => drawn[i++]!));
    return { question, support };
  };

  const hides = (epsilon: number) => hiding.every(([, loss]) => loss <= epsilon);
  return encoder("questions", sizes, asked, width, [width + 2, width + 2], run, hides);
}
