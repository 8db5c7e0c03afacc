/** How a report travels: version, kind and base64url, of the same length whatever a person did. */

/** The answer to one question; `support` has a 0 or 1 for every possible answer. */
export interface AnswerReport {
  readonly question: number;
  readonly support: Uint8Array;
}

/** One-bit messages: 0 or 1 each, all of the first counter, then all of the second, and so on. */
export interface BitsReport {
  readonly bits: Uint8Array;
}

export type Report = AnswerReport | BitsReport;

/** Returns a report as text: the same as `discreet.privatizers.codec.to_wire` in Python, bit for bit. */
export function toWire(report: Report): string {
  const answer = "support" in report;
  const bits = answer ? report.support : report.bits;
  const start = answer ? 4 : 0; // bytes of the question's number
  const body = new Uint8Array(Math.ceil((start + Math.ceil(bits.length / 8)) / 3) * 3); // no character is padded
  if (answer) new DataView(body.buffer).setUint32(0, report.question, true);
  bits.forEach((bit, i) => {
    body[start + (i >> 3)]! |= bit << (7 - (i & 7)); // the first one highest
  });
  const text = btoa(body.reduce((all, byte) => all + String.fromCharCode(byte), ""));
  return `1.${answer ? "answer" : "bits"}.${text.replaceAll("+", "-").replaceAll("/", "_")}`;
}
