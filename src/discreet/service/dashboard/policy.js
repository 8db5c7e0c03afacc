// The policy as a picture: states are rows, steps are columns, an action is a colour and a number.
import { $, attribute, count, each, make, text } from "./dom.js";

const ROWS = 40; // states on one page
const COLOURS = 8;

/** Returns the actions of a policy, (H, S), and how likely they are if it draws them. */
function actions(policy) {
  if (!Array.isArray(policy[0][0])) return { best: policy, chance: null };
  const best = policy.map((row) => row.map((p) => p.indexOf(Math.max(...p))));
  return { best, chance: policy.map((row) => row.map((p) => Math.max(...p))) };
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Returns the different policies of a plan with who plays them: the best so far first. */
function choices(plan) {
  const found = [{ policy: plan.rest, slots: 0, says: "" }];
  const others = [];
  let first = 1;
  plan.policies.forEach((policy, i) => {
    const users = plan.users[i];
    if (users && same(policy, plan.rest)) found[0].slots += users;
    else if (users) others.push({ policy, slots: users, says: users === 1 ? `Slot ${first}` : `Slots ${first} to ${first + users - 1}` });
    first += users;
  });
  found[0].says = found[0].slots ? `Best so far: ${count(found[0].slots)} of ${count(plan.size)} slots` : "Best so far";
  return [...found, ...others.slice(0, 60)];
}

/** Returns how many cells of the best policy differ between two plans, and how many there are. */
export function difference(plan, before) {
  const [now, then] = [actions(plan.rest).best, actions(before.rest).best];
  let changed = 0;
  now.forEach((row, h) => row.forEach((action, s) => (changed += action !== then[h][s])));
  return { changed, cells: now.length * now[0].length };
}

export class Picture {
  constructor() {
    this.who = 0;
    this.page = 0;
    $("who").addEventListener("change", () => this.choose(Number($("who").value)));
    $("fewer").addEventListener("click", () => this.turn(-1));
    $("more").addEventListener("click", () => this.turn(1));
  }

  /** Shows a plan beside the one before it; `world` may name states and actions. */
  show(plan, before, world) {
    Object.assign(this, { plan, before, labels: world?.labels ?? {}, gone: world?.gone, found: choices(plan) });
    if (this.who >= this.found.length) this.who = 0;
    each($("who"), this.found, () => make("option"), (node, choice, i) => {
      attribute(node, "value", i);
      text(node, choice.says);
    });
    $("who").value = String(this.who);
    this.draw();
  }

  clear(says) {
    this.plan = null;
    text($("no-policy"), says);
    $("no-policy").hidden = false;
    $("picture").hidden = true;
    $("pages").hidden = true;
    text($("policy-says"), "");
    $("legend").replaceChildren();
  }

  choose(i) {
    this.who = i;
    this.draw();
  }

  turn(by) {
    this.page += by;
    this.draw();
  }

  action(a) {
    return this.labels.actions?.[a] ?? `action ${a}`;
  }

  state(s) {
    return this.labels.states?.[s] ?? (s === this.gone ? `state ${s} (gone)` : `state ${s}`);
  }

  draw() {
    if (!this.plan) return;
    const { best, chance } = actions(this.found[this.who].policy);
    const then = this.before && this.who === 0 ? actions(this.before.rest).best : null;
    const [steps, states] = [best.length, best[0].length];
    const pages = Math.ceil(states / ROWS);
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const first = this.page * ROWS;
    const rows = Array.from({ length: Math.min(ROWS, states - first) }, (_, i) => first + i);
    this.head(steps);
    each($("picture").tBodies[0], rows, () => make("tr", {}, make("th", { scope: "row" })), (tr, s) => {
      this.title(tr.firstElementChild, s);
      while (tr.children.length > steps + 1) tr.lastElementChild.remove();
      while (tr.children.length < steps + 1) tr.append(make("td"));
      for (let h = 0; h < steps; h++) this.cell(tr.children[h + 1], best[h][s], chance?.[h][s], then?.[h][s], s, h);
    });
    $("picture").hidden = false;
    $("no-policy").hidden = true;
    this.pages(pages, rows, states);
    this.says(best, then, steps * states);
    this.legend(best, chance, then);
  }

  /** Where the screen is narrow, "state" stands in the corner only. */
  title(th, s) {
    const named = this.state(s);
    const [word, rest] = named.startsWith("state ") ? ["state ", named.slice(6)] : ["", named];
    if (!th.firstElementChild) th.append(make("span", { class: "wide-only" }), make("span"));
    text(th.firstElementChild, word);
    text(th.lastElementChild, rest);
  }

  head(steps) {
    const head = $("picture").tHead;
    if (!head.firstElementChild) head.append(make("tr"));
    const titles = ["step", ...Array.from({ length: steps }, (_, h) => h + 1)];
    each(head.firstElementChild, titles, () => make("th", { scope: "col" }), text);
    attribute(head.firstElementChild.firstElementChild, "class", "corner");
  }

  cell(td, action, chance, was, s, h) {
    const changed = was !== undefined && was !== action;
    text(td, action);
    attribute(td, "data-a", action % COLOURS);
    td.classList.toggle("changed", changed);
    const likely = chance === undefined ? "" : ` (${Math.round(100 * chance)} %)`;
    const before = changed ? `, before: ${this.action(was)}` : "";
    attribute(td, "title", `${this.state(s)}, step ${h + 1}: ${this.action(action)}${likely}${before}`);
  }

  pages(pages, rows, states) {
    $("pages").hidden = pages < 2;
    $("fewer").disabled = this.page === 0;
    $("more").disabled = this.page === pages - 1;
    text($("which"), `states ${rows[0]} to ${rows.at(-1)} of ${states}`);
  }

  says(best, then, cells) {
    const group = this.found[this.who];
    const whom = this.who === 0 ? "Also played by everybody without a slot. " : `${group.says} of this batch explore with it. `;
    let changed = "";
    if (then) {
      const found = difference(this.plan, this.before).changed;
      changed = `${found ? count(found) : "None"} of ${count(cells)} cells changed since version ${this.before.version}.`;
    } else if (this.who === 0) {
      changed = this.plan.version === 0 ? "Nothing is learned yet." : "";
    }
    text($("policy-says"), whom + changed);
  }

  legend(best, chance, then) {
    const used = [...new Set(best.flat())].sort((a, b) => a - b);
    const items = used.map((a) => ({ sign: a, colour: a % COLOURS, says: this.action(a) }));
    if (then) items.push({ sign: "", colour: null, says: `changed since version ${this.before.version}` });
    if (chance) items.push({ sign: "~", colour: null, says: "the likeliest action: this policy draws them", plain: true });
    each($("legend"), items, () => make("li", {}, make("b", { "aria-hidden": "true" }), make("span")), (li, item) => {
      const sign = li.firstElementChild;
      text(sign, item.sign);
      attribute(sign, "data-a", item.colour);
      sign.className = item.colour === null ? `mark${item.plain ? "" : " changed"}` : "";
      text(li.lastElementChild, item.says);
    });
  }
}
