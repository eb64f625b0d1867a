// Addresses within the Rules page. Pure.

export const LIST = "#/rules";
// Ids have no `~`: these can never be a rule's.
export const NEW = "#/rules/~new";
export const EXPLAIN = "#/rules/~explain";

/** The address of a rule. */
export const ruleHref = (id) => `${LIST}/${encodeURIComponent(id)}`;

/** The address where a rule is edited. */
export const editHref = (id) => `${ruleHref(id)}/edit`;

/** What an address means: `{view, id, query, hash}`. Whatever makes no sense is the list. */
export function parseRoute(hash) {
  const [path, query = ""] = splitOnce(String(hash ?? ""), "?");
  const parts = path.split("/").slice(2);
  const route = { view: "list", id: null, query, hash };
  if (parts.length === 0 || parts[0] === "") return route;
  if (parts[0] === "~new") return { ...route, view: "new" };
  if (parts[0] === "~explain") return { ...route, view: "explain" };
  let id;
  try {
    id = decodeURIComponent(parts[0]);
  } catch {
    return route;
  }
  return { ...route, view: parts[1] === "edit" ? "edit" : "rule", id };
}

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

const FIELDS = ["method", "path", "user", "tenant", "tier", "ip", "headers", "attributes", "cost"];

/** Headers whose values are secrets and have no business in an address that is passed around. */
const SECRET = /^(authorization|proxy-authorization|cookie|x-api-key|.*-token)$/i;

/** A form to explain, from the query of an address. */
export function formOf(query) {
  const values = new URLSearchParams(query);
  return Object.fromEntries(FIELDS.map((name) => [name, values.get(name) ?? ""]));
}

/** The query of an address for a form; values of secret headers are left out. */
export function queryOf(form) {
  const values = new URLSearchParams();
  for (const name of FIELDS) {
    const value = name === "headers" ? withoutSecrets(form.headers ?? "") : form[name];
    if (value) values.set(name, value);
  }
  return values.toString();
}

function withoutSecrets(lines) {
  return lines
    .split("\n")
    .filter((line) => !SECRET.test(line.split(":")[0].trim()))
    .join("\n");
}

/** The body to be explained for a form, or what is wrong with it: `{body}` or `{errors: {field: message}}`. */
export function bodyOf(form) {
  const errors = {};
  const body = { resource: form.path };
  if (!form.path) errors.path = "Give the path that is asked for, such as /orders/7.";
  for (const name of ["method", "user", "tenant", "tier", "ip"])
    if (form[name]) body[name] = form[name].trim();
  for (const name of ["headers", "attributes"]) {
    const { pairs, error } = pairsOf(form[name] ?? "");
    if (error) errors[name] = error;
    else if (Object.keys(pairs).length) body[name] = pairs;
  }
  const cost = String(form.cost ?? "").trim();
  if (/^\d{1,15}$/.test(cost)) body.cost = Number(cost);
  else if (cost) errors.cost = "Give a whole number, 0 or more; 1 is usual.";
  return Object.keys(errors).length ? { errors } : { body };
}

function pairsOf(text) {
  const pairs = Object.create(null);
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; i += 1) {
    const line = lines[i].trim();
    if (!line) continue;
    const colon = line.indexOf(":");
    if (colon < 1) return { error: `Line ${i + 1} has no name and colon; write it as Name: value.` };
    pairs[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return { pairs };
}
