// The text of rules: writing one from its JSON, and finding one (or the tiers) in the document that holds it. Pure.
//
// This is no YAML parser. It knows the layouts people write; where it is not sure it says null, and the rule as it is
// in force is shown instead.

const ORDER = [
  "rule_id",
  "description",
  "descriptor",
  "identifier_type",
  "algorithm",
  "limit",
  "base_limit",
  "window",
  "burst",
  "tiered",
  "unlimited",
  "cost",
  "charge",
  "on_limit",
  "max_delay",
  "match",
  "priority",
  "on_missing_identity",
  "shadow",
  "overrides",
  "on_store_failure",
];

/** What the server adds to a rule that does not say it. */
const ADDED = ["priority", "on_missing_identity", "on_store_failure", "algorithm"];

/** A rule as YAML. What a document's `defaults` could change stays, so that it means the same anywhere. */
export function yamlOf(rule) {
  const known = ORDER.filter((key) => key in rule);
  const others = Object.keys(rule).filter((key) => !ORDER.includes(key));
  const keys = [...known, ...others].filter((key) => key !== "priority" || rule.priority !== 100);
  return `${keys.map((key) => `${scalar(key)}: ${flow(rule[key])}`).join("\n")}\n`;
}

function flow(value) {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (value && typeof value === "object") {
    const entries = Object.entries(value).map(([key, inner]) => `${scalar(key)}: ${flow(inner)}`);
    return entries.length ? `{ ${entries.join(", ")} }` : "{}";
  }
  return typeof value === "string" ? scalar(value) : JSON.stringify(value);
}

// Bare only where nothing could read it as anything but a text; JSON's quotes are YAML's, too.
function scalar(text) {
  const bare = /^[A-Za-z_/][A-Za-z0-9_./*-]*$/.test(text) || /^\d+(ms|[smhdw])$/.test(text);
  const word = /^(true|false|yes|no|on|off|y|n|null|nan|inf)$/i.test(text);
  return bare && !word ? text : JSON.stringify(text);
}

/** The ids of the rules that a document says, as far as can be seen. */
export function idsIn(text) {
  const ids = [];
  const pattern = /(?:^|[\s{,[-])["']?rule_id["']?\s*:\s*["']?([A-Za-z0-9_.-]{1,128})/;
  for (const line of text.split("\n")) {
    if (/^\s*(#|\/\/)/.test(line)) continue;
    let rest = line;
    for (let hit = pattern.exec(rest); hit; hit = pattern.exec(rest)) {
      ids.push(hit[1]);
      rest = rest.slice(hit.index + hit[0].length);
    }
  }
  return ids;
}

const indentOf = (line) => line.length - line.trimStart().length;
const blank = (line) => /^\s*(#.*)?$/.test(line);

/** The text of rule `rule` (as the server shows it) in a YAML document, without the indentation; null if unsure. */
export function ruleIn(text, rule) {
  const lines = text.replace(/\r\n/g, "\n").split("\n");
  const own = new RegExp(
    `^(\\s*)(-\\s+)?["']?rule_id["']?\\s*:\\s*["']?${escaped(rule.rule_id)}["']?\\s*(#.*)?$`,
  );
  const hits = lines.flatMap((line, i) => (own.test(line) ? [i] : []));
  if (hits.length !== 1) return null;
  const [, space, dash] = own.exec(lines[hits[0]]);
  const depth = space.length + (dash?.length ?? 0);
  const found = depth === 0 ? alone(lines, hits[0]) : item(lines, hits[0], depth);
  return found !== null && agrees(found, rule) ? found : null;
}

const escaped = (text) => String(text).replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&");

// One rule by itself: all of its YAML document.
function alone(lines, at) {
  const bound = (line) => /^(---|\.\.\.)/.test(line);
  let from = at;
  while (from > 0 && !bound(lines[from - 1])) from -= 1;
  let to = at;
  while (to + 1 < lines.length && !bound(lines[to + 1])) to += 1;
  return tidy(lines.slice(from, to + 1));
}

// An item of a list: from its dash to the next line that is further left than its keys.
function item(lines, at, depth) {
  let from = at;
  const starts = (line) =>
    new RegExp(`^\\s*-\\s+\\S`).test(line) && /^\s*-\s+/.exec(line)[0].length === depth;
  while (!starts(lines[from])) {
    from -= 1;
    if (from < 0 || (!blank(lines[from]) && indentOf(lines[from]) < depth && !starts(lines[from])))
      return null;
  }
  let to = at;
  while (to + 1 < lines.length && (blank(lines[to + 1]) || indentOf(lines[to + 1]) >= depth)) to += 1;
  // Comments further left belong to what follows.
  while (to > at && blank(lines[to]) && indentOf(lines[to]) < depth) to -= 1;
  const first = " ".repeat(depth) + lines[from].slice(depth);
  const body = [first, ...lines.slice(from + 1, to + 1)];
  return tidy(body.map((line) => (indentOf(line) >= depth ? line.slice(depth) : line.trimStart())));
}

function tidy(lines) {
  return `${lines.join("\n").replace(/^\n+|\s+$/g, "")}\n`;
}

// Whether a text has the keys that the rule has, so that a wrong cut is not taken for the rule.
function agrees(text, rule) {
  const keys = new Set();
  for (const line of text.split("\n")) {
    const key = /^["']?([A-Za-z_]+)["']?\s*:/.exec(line);
    if (key) keys.add(key[1]);
    else if (!blank(line) && indentOf(line) === 0 && !/^[\]}-]/.test(line)) return false;
  }
  if (keys.delete("window_size_seconds")) keys.add("window");
  // These may be said by nobody, or with the value that goes without saying.
  const optional = new Set([
    "priority",
    "on_missing_identity",
    "on_store_failure",
    "algorithm",
    "hold_for",
    "cost",
    "burst",
    "shadow",
    "tiered",
    "unlimited",
    "overrides",
    "match",
    "on_limit",
  ]);
  const extra = [...keys].filter((key) => !(key in rule) && !optional.has(key));
  const lacking = Object.keys(rule).filter((key) => !keys.has(key) && !ADDED.includes(key));
  return extra.length === 0 && lacking.length === 0;
}

/**
 * What a document says of tiers and plans: `{tiers: [{name, limit, window, burst, algorithm}], plans: [{name, times}]}`;
 * what cannot be made out is left out.
 */
export function tiersIn(text) {
  const json = asJson(text);
  if (json) return { tiers: figures(json.tiers), plans: times(json.plans) };
  const lines = text.replace(/\r\n/g, "\n").split("\n");
  return { tiers: figures(section(lines, "tiers")), plans: times(section(lines, "plans")) };
}

function asJson(text) {
  if (!/^\s*\{/.test(text)) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const figures = (tiers) =>
  Object.entries(tiers ?? {}).flatMap(([name, tier]) => {
    const limit = Number(tier?.limit);
    const window =
      tier?.window ?? (tier?.window_size_seconds === undefined ? undefined : `${tier.window_size_seconds}s`);
    if (Number.isFinite(limit) && tier?.algorithm === "in_flight") {
      return [{ name, limit, hold_for: String(tier.hold_for ?? "60s"), algorithm: tier.algorithm }];
    }
    if (!Number.isFinite(limit) || window === undefined) return [];
    const burst = tier.burst === undefined ? undefined : Number(tier.burst);
    return [{ name, limit, window: String(window), burst, algorithm: tier.algorithm ?? "token_bucket" }];
  });

const times = (plans) =>
  Object.entries(plans ?? {}).flatMap(([name, plan]) => {
    const factor = Number(typeof plan === "object" ? plan?.multiplier : plan);
    return Number.isFinite(factor) ? [{ name, times: factor }] : [];
  });

const bare = (text) =>
  text
    .replace(/\s+#.*$/, "")
    .trim()
    .replace(/^(["'])(.*)\1$/, "$2");

// A mapping at the top of a YAML document, two levels deep: blocks, or `{ a: 1 }` on one line.
function section(lines, name) {
  const at = lines.findIndex((line) => new RegExp(`^${name}\\s*:`).test(line));
  if (at < 0) return null;
  const rest = bare(lines[at].slice(lines[at].indexOf(":") + 1));
  if (rest && !rest.startsWith("#")) return inBraces(rest);
  const result = Object.create(null);
  let inner = null;
  let depth = null;
  for (const line of lines.slice(at + 1)) {
    if (blank(line)) continue;
    const indent = indentOf(line);
    if (indent === 0) break;
    depth ??= indent;
    const [, key, value] = /^\s*("[^"]*"|'[^']*'|[^:]+?)\s*:(?:\s+(.*))?$/.exec(line) ?? [];
    if (key === undefined) continue;
    const said = bare(value ?? "");
    if (indent === depth) {
      inner = said === "" || said.startsWith("#") ? Object.create(null) : null;
      result[bare(key)] = inner ?? (said.startsWith("{") ? inBraces(said) : said);
    } else if (inner) inner[bare(key)] = said;
  }
  return result;
}

function inBraces(text) {
  const result = Object.create(null);
  const body = /^\{(.*)\}$/s.exec(text)?.[1];
  if (body === undefined) return result;
  let level = 0;
  let from = 0;
  const parts = [];
  for (let i = 0; i <= body.length; i += 1) {
    if (i === body.length || (body[i] === "," && level === 0)) {
      parts.push(body.slice(from, i));
      from = i + 1;
    } else if (body[i] === "{" || body[i] === "[") level += 1;
    else if (body[i] === "}" || body[i] === "]") level -= 1;
  }
  for (const part of parts) {
    const colon = part.indexOf(":");
    if (colon < 0) continue;
    const value = part.slice(colon + 1).trim();
    result[bare(part.slice(0, colon))] = value.startsWith("{") ? inBraces(value) : bare(value);
  }
  return result;
}
