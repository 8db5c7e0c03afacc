// The vectors that Python wrote: the same draws give the same reports, the same owners refuse the same encoders.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as built from "../dist/index.js";
import * as minified from "../dist/index.min.js";

const vectors = JSON.parse(readFileSync(new URL("../../vectors.json", import.meta.url), "utf8"));

/** Random bytes from a tape; nothing but the tape, all of the tape, and never more at once than WebCrypto gives. */
function tape(hex) {
  const bytes = Buffer.from(hex, "hex");
  let at = 0;
  const fill = (out) => {
    assert.ok(out.length <= 65536 && at + out.length <= bytes.length);
    out.set(bytes.subarray(at, (at += out.length)));
  };
  return { fill, ended: () => at === bytes.length };
}

const episode = ([states, actions, rewards]) => ({ states, actions, rewards });

for (const [name, { fromDocument, toWire, ...rest }] of Object.entries({ built, minified })) {
  const encoders = vectors.documents.map((document) => fromDocument(document));

  test(`${vectors.reports.length} reports agree bit for bit (${name})`, () => {
    assert.ok(vectors.reports.length >= 1000);
    for (const [d, trajectory, hex, text] of vectors.reports) {
      const { fill, ended } = tape(hex);
      const encoder = encoders[d];
      const report = trajectory ? encoder.encode(episode(trajectory), fill) : encoder.absent(fill);
      assert.equal(toWire(report), text);
      assert.ok(ended());
    }
  });

  test(`trajectories out of bounds are refused, and not repeated (${name})`, () => {
    for (const [d, trajectory, kind] of vectors.refused) {
      assert.throws(
        () => encoders[d].encode(episode(trajectory), () => assert.fail("nothing is drawn")),
        (error) => {
          assert.ok(error instanceof rest[kind] && error.name === kind);
          return /^(states|actions|rewards) must (lie in \[0, \d+[\])]|have shape \(\d+,\))$/.test(error.message);
        },
      );
    }
    for (const nothing of [undefined, null, {}, { states: 5 }]) {
      assert.throws(() => encoders[0].encode(nothing), rest.InvalidPersonalData);
    }
  });

  test(`pins (${name})`, () => {
    for (const [d, epsilon, delta, users, accepted] of vectors.pins) {
      const document = vectors.documents[d];
      const { states, actions, horizon } = document.layout;
      const pin = { states, actions, horizon, epsilon, delta, ...(users && { users }) };
      if (accepted) fromDocument(document, pin);
      else assert.throws(() => fromDocument(document, pin), rest.Refused, `${d} ${epsilon} ${delta} ${users}`);
    }
  });

  test(`documents that no device takes (${name})`, () => {
    for (const [document, kind] of vectors.broken) {
      assert.throws(() => fromDocument(document), (error) => error.name === kind, JSON.stringify(document));
    }
    for (const nothing of [undefined, null, 5, "{}", [], {}]) assert.throws(() => fromDocument(nothing), rest.InvalidInput);
  });
}
