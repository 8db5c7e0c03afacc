// Shows the OpenAPI document: one line an endpoint, details on demand.
import { $, make, text } from "./dom.js";

const METHODS = ["get", "put", "post", "delete", "patch"];
const GROUPS = { episodes: "Episodes", deployments: "Deployments", ledger: "Ledger", batches: "Batches, for the shuffler" };

const groupOf = (path) => GROUPS[path.split("/")[2]] ?? "Health";
const anchor = (name) => `schema-${name}`;

/** Returns nodes that say a schema in a few words; named ones are links. */
function type(schema) {
  if (!schema || Object.keys(schema).length === 0) return ["anything"];
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return [make("a", { href: `#${anchor(name)}` }, name)];
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.flatMap((one, i) => (i ? [" or ", ...type(one)] : type(one)));
  if (schema.type === "array") return ["list of ", ...type(schema.items)];
  return [schema.type ?? "anything", bounds(schema)];
}

function bounds(schema) {
  const said = [];
  if (schema.minimum !== undefined) said.push(`≥ ${schema.minimum}`);
  if (schema.maximum !== undefined) said.push(`≤ ${schema.maximum}`);
  if (schema.minLength !== undefined) said.push(`at least ${schema.minLength} character${schema.minLength === 1 ? "" : "s"}`);
  if (schema.maxLength !== undefined) said.push(`at most ${schema.maxLength} characters`);
  if (schema.pattern !== undefined) said.push(schema.pattern);
  if (schema.enum) said.push(schema.enum.join(", "));
  return said.length ? ` (${said.join("; ")})` : "";
}

const code = (...children) => make("code", {}, ...children);
const row = (...cells) => make("tr", {}, ...cells.map((cell, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, ...[cell].flat())));
const table = (...rows) => make("div", { class: "scroll" }, make("table", { class: "rows" }, make("tbody", {}, ...rows)));

const content = (found) => Object.entries(found ?? {}).map(([kind, { schema }]) => [make("span", { class: "soft" }, `${kind}: `), ...type(schema)]).flat();

function operation(path, method, found) {
  const says = make("span", { class: "says" }, found.summary ?? "");
  const head = make("summary", {}, make("span", { class: "method" }, method.toUpperCase()), code(path), says);
  const body = make("div", {});
  if (found.description) body.append(make("p", { class: "soft" }, found.description));
  if (found.parameters?.length) {
    body.append(make("h3", {}, "Parameters"), table(...found.parameters.map((each) => row(code(each.name), `in the ${each.in}`, type(each.schema)))));
  }
  if (found.requestBody) body.append(make("h3", {}, "Request"), make("p", {}, ...content(found.requestBody.content)));
  const answers = Object.entries(found.responses).map(([status, each]) => row(status, [each.description, " ", ...(status < "3" ? content(each.content) : [])]));
  body.append(make("h3", {}, "Answers"), table(...answers));
  return make("details", { class: "card operation" }, head, body);
}

function schema(name, found) {
  const required = new Set(found.required ?? []);
  const rows = Object.entries(found.properties ?? {}).map(([field, each]) =>
    row(code(field), [...type(each), required.has(field) ? "" : make("span", { class: "soft" }, ", may be left out")], each.description ?? ""),
  );
  return make("section", { class: "card schema", id: anchor(name), tabindex: "-1" }, make("h3", {}, name), make("p", { class: "soft" }, found.description ?? ""), table(...rows));
}

function show(found) {
  text($("title"), `${found.info.title} API, version ${found.info.version}`);
  text($("about"), found.info.description ?? "");
  const groups = new Map();
  for (const [path, methods] of Object.entries(found.paths)) {
    for (const method of METHODS.filter((each) => methods[each])) {
      const name = groupOf(path);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(operation(path, method, methods[method]));
    }
  }
  $("operations").replaceChildren(...[...groups].map(([name, all]) => make("section", { class: "group" }, make("h2", {}, name), ...all)));
  $("schemas").replaceChildren(...Object.entries(found.components.schemas).map(([name, each]) => schema(name, each)));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

const all = (open) => document.querySelectorAll("details").forEach((each) => (each.open = open));
$("open").addEventListener("click", () => all(true));
$("shut").addEventListener("click", () => all(false));
try {
  const response = await fetch("/openapi.json", { credentials: "omit" });
  if (!response.ok) throw new Error(String(response.status));
  show(await response.json());
} catch {
  text($("about"), "The service did not give its document: reload the page.");
}
