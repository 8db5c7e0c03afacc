export type { Sizes, Trajectory } from "./checks.js";
export type { Fill } from "./draws.js";
export type { Encoder, Kind } from "./encoder.js";
export * from "./errors.js";
export { checkPin, fromDocument, type Pin } from "./pin.js";
export { type AnswerReport, type BitsReport, type Report, toWire } from "./wire.js";
export { type Client, connect, type Episode, type Options, type Store } from "./client.js";
