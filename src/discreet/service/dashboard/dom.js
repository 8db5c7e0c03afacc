// Changes in place: a node is touched only if what it shows is another thing than before.
export const $ = (id) => document.getElementById(id);

export function text(node, value) {
  const said = String(value);
  if (node.textContent !== said) node.textContent = said;
}

export function attribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

export function make(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Gives a parent as many children as there are items, keeps those that it has, and updates each. */
export function each(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  while (parent.children.length < items.length) parent.append(create());
  items.forEach((item, i) => update(parent.children[i], item, i));
}

export const lines = (parent, items, tag = "li") => each(parent, items, () => make(tag), text);

export function width(node, share) {
  const wanted = `${(100 * Math.min(1, Math.max(0, share))).toFixed(3)}%`;
  if (node.style.width !== wanted) node.style.width = wanted;
}

export function progress(node, value, most) {
  attribute(node, "aria-valuemax", most);
  attribute(node, "aria-valuenow", value);
  width(node.firstElementChild, most > 0 ? value / most : 0);
}

export const sentence = (said) => `${said.slice(0, 1).toUpperCase()}${said.slice(1)}${/[.!?]$/.test(said) ? "" : "."}`;

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A number for people to read. What is promised is never rounded down; a last bit of rounding is no digit. */
export function rounded(value, digits = 3) {
  if (value === null) return "∞";
  if (value === 0) return "0";
  const size = 10 ** (digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  const up = Math.ceil(value * size * (1 - 1e-12)) / size;
  const plain = Number(up.toPrecision(digits));
  if (plain >= 0.001 && plain < 1e6) return String(plain);
  const [digit, power] = plain.toExponential().split("e");
  const raised = [...String(Number(power))].map((sign) => RAISED[sign]).join("");
  return `${digit === "1" ? "" : `${digit} · `}10${raised}`;
}

export const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");

export function lasting(seconds) {
  const whole = Math.max(0, Math.ceil(seconds));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  return minutes ? `${minutes} min ${String(whole % 60).padStart(2, "0")} s` : `${whole} s`;
}
