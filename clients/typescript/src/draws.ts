/** Uniform draws, made of random words exactly as Python's secure source makes them. */

/** How many values a draw has: k/2^53 for k = 0, …, 2^53 − 1. Written such that no minifier repeats it in full. */
export const UNITS = Number.MAX_SAFE_INTEGER + 1;

/** Fills bytes at random; at most 65536 at once, which is what WebCrypto allows. */
export type Fill = (bytes: Uint8Array<ArrayBuffer>) => unknown;

const MOST = 65536;

/**
 * Returns a function that gives `count` draws k one after the other, from little-endian words of 64 bits: k = word >> 11.
 *
 * Nothing more is taken from the source than is used, and there is no other source to fall back to: without WebCrypto
 * this throws.
 */
export function draws(count: number, fill: Fill = (bytes) => crypto.getRandomValues(bytes)): () => number {
  let at = 0;
  let view: DataView<ArrayBuffer>;
  return () => {
    const i = at % MOST;
    if (!i) {
      view = new DataView(new ArrayBuffer(Math.min(8 * count - at, MOST)));
      fill(new Uint8Array(view.buffer));
    }
    at += 8;
    return view.getUint32(i + 4, true) * 2 ** 21 + (view.getUint32(i, true) >>> 11);
  };
}
