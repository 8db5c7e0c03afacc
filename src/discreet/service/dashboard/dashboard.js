// The dashboard: it asks viewer endpoints every few seconds, and changes what has changed.
import { Refused, ask, at, key, read } from "./ask.js";
import { $, attribute, each, make, text } from "./dom.js";
import { batch, countdown, heading, ledger, promise, stateOf, words } from "./parts.js";
import { Picture, difference } from "./policy.js";
import { releases } from "./releases.js";

const EVERY = 3000; // milliseconds between two looks
const SLOWEST = 30000;
const LEDGER = 10; // looks between two looks at the ledger
const HISTORY = 24; // releases whose change of the policy is shown
const LARGE = 300000; // characters of a plan beyond which no history of plans is fetched

const picture = new Picture();
const known = new Map(); // by name: statement, plans and changes; plans never change
let shownAll = [];
let ledgers = [];
let looks = 0;
let failures = 0;
let timer = null;
let wanted = null; // the version that somebody chose to look at; null is the newest
let drift = 0; // of this clock, against the server's
let asOf = null;
let session = 0; // goes up when a key is forgotten: answers that come later are not shown
let busy = false;

const chosen = () => {
  const name = location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) : null;
  return shownAll.find((shown) => shown.name === name) ?? shownAll[0];
};

function memory(name) {
  if (!known.has(name)) known.set(name, { statement: null, version: -1, state: null, plans: new Map(), changes: new Map(), large: false });
  return known.get(name);
}

async function plan(name, version) {
  const { plans } = memory(name);
  if (!plans.has(version)) {
    const body = await (await ask(at(name, `/plans/${version}`))).text();
    memory(name).large ||= body.length > LARGE;
    const { rest, policies, users, size } = JSON.parse(body);
    plans.set(version, { version, rest, policies, users, size });
  }
  return plans.get(version);
}

/** Returns the plan, or null if there is none yet: the release is committed before anybody plans with it. */
async function planned(name, version) {
  try {
    return await plan(name, version);
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

function list() {
  const current = chosen();
  each($("list"), shownAll, () => make("li", {}, make("a", {}, make("span", { class: "name" }), make("span", { class: "state number" }))), (li, shown) => {
    const link = li.firstElementChild;
    attribute(link, "href", `#/${encodeURIComponent(shown.name)}`);
    attribute(link, "aria-current", shown === current ? "page" : null);
    text(link.firstElementChild, shown.name);
    text(link.lastElementChild, `${stateOf(shown)} · ${shown.version} release${shown.version === 1 ? "" : "s"}`);
  });
  $("nothing").hidden = shownAll.length > 0;
  $("detail").hidden = shownAll.length === 0;
}

/** On a phone the list is one line that scrolls: brings the chosen one into it, and leaves the page where it is. */
function reveal() {
  const link = $("list").querySelector("[aria-current]");
  if (link) $("list").scrollLeft += link.getBoundingClientRect().left - $("list").getBoundingClientRect().left - 40;
}

function quick(shown) {
  heading(shown);
  batch(shown);
  tick();
  promise(shown);
  ledger(shown, ledgers);
  text($("command"), `discreet verify ${shown.name}-statement.json`);
  document.title = `${shown.name} · Discreet`;
}

/** Shows what changes with a release only: the policy, the list of releases and the words. */
async function slow(shown) {
  const own = memory(shown.name);
  if (own.version !== shown.version || own.state !== shown.state) {
    own.statement = await read(at(shown.name, "/statement"));
    Object.assign(own, { version: shown.version, state: shown.state });
  }
  if (chosen()?.name !== shown.name) return;
  words(own.statement);
  releases(shown, own.statement.releases, own.changes);
  await policy(shown);
  $("detail").classList.remove("loading");
  if ($("frame").hidden && key.get() !== null) enter(); // whole, so that nothing moves
  await history(shown, own);
}

async function policy(shown) {
  let version = Math.min(wanted ?? shown.version, shown.version);
  let now = await planned(shown.name, version);
  if (now === null && version > 0) now = await planned(shown.name, --version);
  const before = version > 0 ? await planned(shown.name, version - 1) : null;
  if (chosen()?.name !== shown.name) return;
  text($("shown-version"), version);
  $("older").disabled = version === 0;
  $("newer").disabled = $("newest").disabled = version >= shown.version;
  if (now === null) picture.clear("There is no plan yet.");
  else picture.show(now, before, shown.config.world);
}

async function history(shown, own) {
  for (let version = shown.version; version > Math.max(0, shown.version - HISTORY) && !own.large; version--) {
    if (own.changes.has(version)) continue;
    const [now, before] = [await planned(shown.name, version), await planned(shown.name, version - 1)];
    if (now === null || before === null) continue;
    own.changes.set(version, difference(now, before));
  }
  if (chosen()?.name === shown.name) releases(shown, own.statement.releases, own.changes);
}

async function look(mine) {
  const found = await read("/v1/deployments");
  if (mine !== session) return;
  shownAll = found;
  if (looks++ % LEDGER === 0 || shownAll.some((shown) => !known.has(shown.name))) ledgers = await read("/v1/ledger");
  const shown = chosen();
  if (shown?.now) drift = shown.now - Date.now() / 1000;
  list();
  if (!shown) return enter();
  shownAll.forEach(({ name }) => memory(name));
  quick(shown);
  await slow(shown);
}

function tick() {
  const shown = chosen();
  if (shown) countdown(shown, Date.now() / 1000 + drift);
}

function pulse(is, says) {
  attribute($("pulse"), "data-is", is);
  text($("pulse-says"), says);
}

async function round() {
  clearTimeout(timer);
  if (key.get() === null || busy) return;
  const mine = session;
  busy = true;
  try {
    await look(mine);
    if (mine !== session) return;
    failures = 0;
    asOf = new Date();
    $("notice").hidden = true;
    pulse("live", "live");
  } catch (error) {
    if (mine !== session) return;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) return out(refusal(error));
    failures++;
    lost(error);
  } finally {
    busy = false;
    if (mine !== session) setTimeout(round); // another key may be there by now
  }
  clearTimeout(timer);
  timer = setTimeout(() => document.hidden || round(), Math.min(SLOWEST, EVERY * 2 ** Math.min(failures, 4)));
}

const refusal = (error) =>
  error.status === 401 ? "The service does not know this key." : "This key may not look: its scope must be viewer.";

function lost(error) {
  pulse("lost", "no answer");
  const why = error instanceof Refused ? `The service says: ${error.message}.` : "The service does not answer.";
  text($("notice"), `${why} ${asOf ? `What you see is as of ${asOf.toLocaleTimeString()}.` : ""} Trying again …`);
  $("notice").hidden = false;
}

function enter() {
  const inside = $("gate").contains(document.activeElement);
  $("gate").hidden = $("loading").hidden = true;
  $("frame").hidden = false;
  $("leave").hidden = false;
  if (looks === 1) reveal();
  if (inside) $(shownAll.length ? "detail" : "nothing").focus({ preventScroll: true }); // what had the focus is gone
}

/** Forgets the key and all that it showed. */
function out(why = "") {
  clearTimeout(timer);
  session++;
  key.forget();
  known.clear();
  Object.assign($("detail"), { className: "detail loading" });
  [shownAll, ledgers, looks, wanted, asOf] = [[], [], 0, null, null];
  picture.clear("Loading …");
  for (const id of ["frame", "leave", "loading", "notice"]) $(id).hidden = true;
  $("gate").hidden = false;
  document.title = "Discreet";
  pulse("idle", "not connected");
  text($("wrong"), why);
  $("key").focus();
}

async function download() {
  const { name } = chosen();
  try {
    const bytes = await (await ask(at(name, "/statement"))).blob(); // as they were signed
    const link = make("a", { href: URL.createObjectURL(bytes), download: `${name}-statement.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    text($("download-says"), `${name}-statement.json, ${bytes.size} bytes`);
  } catch {
    text($("download-says"), "The service did not give it: try again.");
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("command").textContent);
    text($("copy"), "Copied");
    setTimeout(() => text($("copy"), "Copy"), 2000);
  } catch {
    getSelection().selectAllChildren($("command")); // without TLS a browser lets nobody write: it is selected instead
  }
}

function turn(to) {
  wanted = to;
  const shown = chosen();
  if (shown) policy(shown).catch(lost);
}

function changed() {
  wanted = null;
  picture.who = picture.page = 0;
  text($("download-says"), "");
  const shown = chosen();
  list();
  if (!shown) return;
  reveal();
  quick(shown);
  $("detail").classList.toggle("loading", memory(shown.name).statement === null);
  slow(shown).catch(lost);
}

const step = (by) => Number($("shown-version").textContent) + by;
$("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set($("key").value.trim());
  $("key").value = "";
  text($("wrong"), "");
  pulse("idle", "connecting");
  round();
});
$("leave").addEventListener("click", () => out());
$("older").addEventListener("click", () => turn(step(-1)));
$("newer").addEventListener("click", () => turn(step(1) >= chosen().version ? null : step(1)));
$("newest").addEventListener("click", () => turn(null));
$("download").addEventListener("click", download);
$("copy").addEventListener("click", copy);
for (const [link, target] of [["to-words", "plainly"], [null, "detail"]]) {
  (link ? $(link) : document.querySelector(".skip")).addEventListener("click", (event) => {
    event.preventDefault(); // the address keeps the deployment
    $(target).focus();
    $(target).scrollIntoView();
  });
}
addEventListener("hashchange", changed);
document.addEventListener("visibilitychange", () => document.hidden || round());
setInterval(tick, 1000);
if (key.get() === null) out();
else {
  $("loading").hidden = false;
  round();
}
