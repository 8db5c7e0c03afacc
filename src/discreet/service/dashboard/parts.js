// The cards of a deployment: its batch, its promise, its population's ledger.
import { $, attribute, count, each, lasting, lines, make, progress, rounded, sentence, text } from "./dom.js";

const NOTIONS = {
  joint: "Joint differential privacy",
  local: "Local differential privacy",
  shuffle: "Shuffle differential privacy",
  none: "No privacy",
};
const TRUST = { central: "trusted server", local: "nobody trusted", shuffle: "trusted shuffler", none: "no privacy" };
const STATES = { open: "open", complete: "complete", "rolled-back": "rolled back" };

export const stateOf = (shown) => STATES[shown.state] ?? shown.state;

export function heading(shown) {
  text($("name"), shown.name);
  text($("state"), stateOf(shown));
  attribute($("state"), "data-is", shown.state);
  text($("trust"), TRUST[shown.config.privacy.trust] ?? shown.config.privacy.trust);
  text($("agent"), shown.config.agent.name);
  $("simulation").hidden = !shown.config.simulation;
  $("rolled").hidden = shown.state !== "rolled-back";
}

export function batch(shown) {
  const over = shown.state === "complete";
  text($("batch"), over ? "" : shown.version + 1);
  text($("issued"), count(shown.issued));
  text($("slots"), count(shown.slots));
  progress($("issued-bar"), shown.issued, shown.slots);
}

/** Says what time is left, by the server's clock; called every second. */
export function countdown(shown, now) {
  const { config } = shown;
  if (shown.state !== "open") {
    text($("left"), shown.state === "complete" ? "Nobody is collected any more" : "Closed for good");
    text($("left-why"), "");
  } else if (shown.closes === null && shown.issued >= shown.slots) {
    text($("left"), "The next batch is being planned");
    text($("left-why"), "");
  } else if (shown.closes === null) {
    text($("left"), "Open until all slots are given out");
    text($("left-why"), `Then reports are taken for ${lasting(config.report_within)}.`);
  } else {
    const left = shown.closes - now;
    const early = config.timing === "public" ? ", or when all have reported" : "";
    text($("left"), left > 0 ? `Closes in ${lasting(left)}` : "Closing now");
    const full = shown.issued >= shown.slots;
    text($("left-why"), full ? `All slots are given out; reports are taken until then${early}.` : `At the latest${early}.`);
  }
}

export function promise({ guarantee, config }) {
  const none = guarantee.notion === "none";
  text($("epsilon"), none ? "nothing" : `ε = ${rounded(guarantee.epsilon)}`);
  text($("delta"), guarantee.delta && !none ? `δ = ${rounded(guarantee.delta)}` : "");
  text($("notion"), NOTIONS[guarantee.notion] ?? guarantee.notion);
  const k = config.episodes_per_person;
  const whom = `for a person with ${k === 1 ? "one episode" : `up to ${k} episodes`}`;
  const noise = guarantee.noise === "fast" ? "noise for simulations only" : "noise from the operating system";
  text($("noise"), none ? "" : sentence(`${whom}, ${noise}`));
}

/** The words are those of the statement, which `discreet verify` makes again. */
export function words(statement) {
  lines($("words"), statement.promise.words, "p");
  lines($("assumptions"), statement.promise.guarantee.assumptions.map(sentence));
  lines($("trusted"), statement.trust.words);
  lines($("uncovered"), statement.not_covered);
}

export function ledger(shown, ledgers) {
  const name = shown.config.population.name;
  const found = ledgers.find((each) => each.population === name);
  text($("population"), name);
  text($("spent"), found ? `ε ${rounded(found.spent)}` : "nothing");
  text($("budget"), found ? `${rounded(found.epsilon)}` : "no budget");
  progress($("spent-bar"), found ? found.spent : 0, found ? found.epsilon : 1);
  attribute($("spent-bar"), "aria-valuetext", found ? `ε ${rounded(found.spent)} of ${rounded(found.epsilon)}` : "none");
  const at = found?.delta ? `, at δ = ${rounded(found.delta)}` : "";
  text($("together"), found ? `What all deployments on these people may cost one of them together${at}.` : "");
  each($("charges"), found ? found.charges : [], () => make("li", {}, make("span"), make("span")), (node, charge) => {
    const delta = charge.delta ? `, δ = ${rounded(charge.delta)}` : "";
    text(node.firstElementChild, charge.deployment);
    text(node.lastElementChild, `ε = ${rounded(charge.epsilon)}${delta}`);
  });
}
