// Reports drawn through the real WebCrypto have the law that their thresholds say; a law that is 10 % off would be seen.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromDocument } from "../dist/index.js";

const { documents } = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8"));
const REPORTS = 100_000;
const UNITS = 2 ** 53;
const FALSE_ALARM = 1e-9;

/** An upper bound of the quantile: P(χ² > k + 2√(kx) + 2x) ≤ e^-x (Laurent and Massart 2000, Lemma 1). */
function bound(k) {
  const x = -Math.log(FALSE_ALARM);
  return k + 2 * Math.sqrt(k * x) + 2 * x;
}

/** Pearson's statistic and its degrees of freedom; cells that are expected less than 10 times are put together. */
function chiSquare(counts, expected) {
  let [statistic, cells, restCount, restExpected] = [0, 0, 0, 0];
  expected.forEach((mean, i) => {
    if (mean < 10) [restCount, restExpected] = [restCount + counts[i], restExpected + mean];
    else [statistic, cells] = [statistic + (counts[i] - mean) ** 2 / mean, cells + 1];
  });
  if (restExpected >= 10) [statistic, cells] = [statistic + (restCount - restExpected) ** 2 / restExpected, cells + 1];
  else assert.ok(restCount < 60, "rare reports are too many");
  return [statistic, cells - 1];
}

/** The probability of a set of answers if `value` is the true one, from a document's thresholds alone. */
function likelihood({ name, size, p, q, chosen }, value, mask) {
  const bit = (i) => (mask >> i) & 1;
  if (name === "unary") {
    let found = 1;
    for (let i = 0; i < size; i++) {
      const one = (i === value ? p : q) / UNITS;
      found *= bit(i) ? one : 1 - one;
    }
    return found;
  }
  let taken = 0;
  for (let i = 0; i < size; i++) taken += bit(i);
  if (taken !== chosen) return 0;
  const comb = (n, k) => (k < 0 || k > n ? 0 : k ? (comb(n - 1, k - 1) * n) / k : 1);
  return bit(value) ? p / UNITS / comb(size - 1, chosen - 1) : (1 - p / UNITS) / comb(size - 1, chosen);
}

/** How often each question and set of answers is expected, of a person who was in state 0 and stayed, rewarded with 1/4. */
function expectation(document) {
  const { states: S, actions: A, stationary } = document.layout;
  const { questions, randomisers } = document.device;
  const cells = questions.length / 2;
  const all = [];
  questions.forEach((T, question) => {
    const chance = (T - (questions[question - 1] ?? 0)) / UNITS;
    const about = +(question >= cells);
    const { size } = randomisers[about];
    const visited = stationary ? question % cells === 0 : (question % cells) % (S * A) === 0;
    for (let mask = 0; mask < 2 ** size; mask++) {
      const given = (value) => likelihood(randomisers[about], value, mask);
      const found = !visited ? given(size - 1) : about ? 0.25 * given(1) + 0.75 * given(0) : given(0);
      all.push(REPORTS * chance * found);
    }
  });
  return all;
}

function counted(document) {
  const encoder = fromDocument(document);
  const { questions, randomisers } = document.device;
  const { horizon: H } = document.layout;
  const cells = questions.length / 2;
  const starts = questions.map((_, i) => Math.min(i, cells) * 2 ** randomisers[0].size + Math.max(i - cells, 0) * 8);
  const counts = new Array(starts.at(-1) + 8).fill(0);
  const person = { states: Array(H + 1).fill(0), actions: Array(H).fill(0), rewards: Array(H).fill(0.25) };
  for (let i = 0; i < REPORTS; i++) {
    const { question, support } = encoder.encode(person);
    counts[starts[question] + support.reduce((mask, bit, j) => mask | (bit << j), 0)]++;
  }
  return counts;
}

/** The same thresholds, as if ε were 10 % more: a planted error. */
function weaker(document) {
  const copy = structuredClone(document);
  for (const one of copy.device.randomisers) {
    const k = one.name === "unary" ? 1 : (one.size - one.chosen) / one.chosen;
    const part = one.name === "unary" ? one.q / UNITS : 1 - one.p / UNITS;
    const epsilon = Math.log((k * (1 - part)) / part) * 1.1;
    const changed = Math.round((k / (Math.exp(epsilon) + k)) * UNITS);
    if (one.name === "unary") one.q = changed;
    else one.p = UNITS - changed;
  }
  return copy;
}

for (const name of ["unary", "subset", "response"]) {
  const document = documents.find(({ device }) => device.randomisers?.[0].name === name); // the first ones are for this
  test(`${REPORTS} answers through WebCrypto have the right law: ${name}`, () => {
    const counts = counted(document);
    const [statistic, k] = chiSquare(counts, expectation(document));
    assert.ok(statistic <= bound(k), `chi-square of ${k} degrees: ${statistic} > ${bound(k)}`);
    const [off] = chiSquare(counts, expectation(weaker(document)));
    assert.ok(off > bound(k), `an epsilon that is 10 % off was not seen: ${off} <= ${bound(k)}`);
  });
}

for (const kind of ["binomial", "first-visits"]) {
  const document = documents.find((one) => one.kind === kind && one.device.p > UNITS / 8 && one.device.noise_bits > 1);
  test(`noise bits through WebCrypto have the right law: ${kind}`, () => {
    const encoder = fromDocument(document);
    const { noise_bits: m, p, q } = document.device;
    const thresholds = q ? [p, q] : [p];
    const noise = m * thresholds.length;
    const size = encoder.asked;
    const data = encoder.bits / size - noise;
    const ones = new Array(2 ** noise).fill(0); // all noise bits of a counter together: independence, too
    let reports = 0;
    for (let drawn = 0; drawn < REPORTS; drawn += size, reports++) {
      const { bits } = encoder.absent();
      for (let i = 0; i < size; i++) {
        const row = bits.subarray(i * (data + noise), (i + 1) * (data + noise));
        assert.ok(row.subarray(0, data).every((bit) => bit === 0));
        ones[row.subarray(data).reduce((mask, bit, j) => mask | (bit << j), 0)]++;
      }
    }
    const law = (factor) =>
      ones.map((_, mask) => {
        let mean = reports * size;
        for (let j = 0; j < noise; j++) {
          const rare = (factor * p) / UNITS; // of the bit that a draw below p gives; the second of a pair is its opposite
          const one = j % thresholds.length ? 1 - rare : rare;
          mean *= (mask >> j) & 1 ? one : 1 - one;
        }
        return mean;
      });
    const [statistic, k] = chiSquare(ones, law(1));
    assert.ok(statistic <= bound(k), `chi-square of ${k} degrees: ${statistic} > ${bound(k)}`);
    const [off] = chiSquare(ones, law(0.9));
    assert.ok(off > bound(k), `a probability that is 10 % off was not seen: ${off} <= ${bound(k)}`);
  });
}
