// Releases in order. A release has no time of its own: what orders them is how many slots went before.
import { $, attribute, count, each, make, text, width } from "./dom.js";

/** Shows how far the deployment is: a segment for each release, the open batch, and what is free. */
function timeline(shown, releases) {
  const all = shown.config.agent.episodes;
  const sizes = releases.map((release, i) => release.users - (releases[i - 1]?.users ?? 0));
  const now = shown.state === "open" ? shown.issued : 0;
  each($("timeline"), [...sizes, now], () => make("i"), (node, size, i) => {
    node.className = i === sizes.length ? "now" : "";
    width(node, size / all);
  });
  const done = releases.at(-1)?.users ?? 0;
  const of = releases.length ? `, ${count(done)} of them in ${releases.length} release${releases.length === 1 ? "" : "s"}` : "";
  const said = `${count(done + now)} of ${count(all)} slots given out${of}`;
  attribute($("timeline"), "aria-label", said);
  text($("so-far"), said);
  return sizes;
}

function row() {
  const bar = make("span", { class: "bar meter wide-only", "aria-hidden": "true" }, make("i"));
  return make("tr", {}, make("th", { scope: "row" }), make("td", { class: "right" }), make("td", { class: "right" }),
    make("td", {}, bar, make("span")), make("td", { class: "wide-only mono soft" }));
}

/** Shows all releases, newest first; `changes` says by version what each did to the policy, where that is known. */
export function releases(shown, found, changes) {
  const sizes = timeline(shown, found);
  const newest = found.map((release, i) => ({ ...release, size: sizes[i] })).reverse();
  each($("releases").tBodies[0], newest, row, (tr, release) => {
    const [version, size, users, changed, hash] = tr.children;
    text(version, release.version);
    text(size, count(release.size));
    text(users, count(release.users));
    const known = changes.get(release.version);
    width(changed.firstElementChild.firstElementChild, known ? known.changed / known.cells : 0);
    text(changed.lastElementChild, known ? `${count(known.changed)} of ${count(known.cells)}` : "–");
    text(hash, `${release.hash.slice(0, 16)}…`);
    attribute(hash, "title", release.hash);
  });
  $("releases").hidden = found.length === 0;
  $("no-releases").hidden = found.length > 0;
}
