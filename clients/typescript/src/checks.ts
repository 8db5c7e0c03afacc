/** What was sent by others, or typed in by a person, is checked before it is used. */
import { InvalidInput, InvalidPersonalData } from "./errors.js";

/** How many numbers a device handles for one report at most, as in Python. */
export const LARGEST = 2 ** 24;

/** The public sizes of an environment. */
export interface Sizes {
  readonly states: number;
  readonly actions: number;
  readonly horizon: number;
}

/** One person's episode: s_1 … s_{H+1}, a_1 … a_H, and r_1 … r_H in [0, 1]. It must not leave the device. */
export interface Trajectory {
  readonly states: ArrayLike<number>;
  readonly actions: ArrayLike<number>;
  readonly rewards: ArrayLike<number>;
}

/** A part of a document, of which nothing is known yet; what is missing is refused where it is used. */
export type Unknown = Readonly<Record<string, unknown>>;

export const record = (value: unknown): Unknown => Object(value) as Unknown;

export const isWhole = (value: unknown, least: number, most: number): value is number =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= most;

/** Throws, with the field and its bound, unless this holds. */
export function check(holds: boolean, message: string): asserts holds {
  if (!holds) throw new InvalidInput(message);
}

/** Returns an integer of a document. */
export function whole(name: string, value: unknown, least: number, most: number): number {
  check(isWhole(value, least, most), `${name} must be an integer in [${least}, ${most}]`);
  return value;
}

export function flag(name: string, value: unknown): boolean {
  check(typeof value === "boolean", `${name} must be true or false`);
  return value;
}

/** Returns a list with as many entries, which `each` reads. */
export function list<T>(name: string, value: unknown, least: number, most: number, each: (value: unknown, i: number) => T): T[] {
  whole(name + ".length", record(value).length, least, most);
  return Array.from(value as unknown[], each);
}

/** Throws unless one number of a person is within its bound; the bound is all that the message names. */
export function personal(name: keyof Trajectory, value: unknown, sizes: Sizes): void {
  const real = name === "rewards";
  const fine = real ? typeof value === "number" && value >= 0 && value <= 1 : isWhole(value, 0, sizes[name] - 1);
  if (!fine) throw new InvalidPersonalData(`${name} must lie in [0, ${real ? "1]" : `${sizes[name]})`}`);
}

/** Throws unless this is an episode of these sizes. */
export function checkTrajectory(trajectory: Trajectory, sizes: Sizes): void {
  for (const name of ["states", "actions", "rewards"] as const) {
    const length = sizes.horizon + Number(name === "states");
    const values = trajectory?.[name];
    if (values?.length !== length) throw new InvalidPersonalData(`${name} must have shape (${length},)`);
    for (let i = 0; i < length; i++) personal(name, values[i], sizes);
  }
}

/** Returns the number of the cell of a step: (s, a) if it is stationary, else (h, s, a). */
export const cellOf = ({ states, actions }: Trajectory, h: number, sizes: Sizes, stationary: boolean): number =>
  ((stationary ? 0 : h * sizes.states) + states[h]!) * sizes.actions + actions[h]!;

/** Returns the step of the first visit to a cell; −1 without one. */
export function firstVisit(trajectory: Trajectory, cell: number, sizes: Sizes, stationary: boolean): number {
  for (let h = 0; h < sizes.horizon; h++) if (cellOf(trajectory, h, sizes, stationary) === cell) return h;
  return -1;
}
