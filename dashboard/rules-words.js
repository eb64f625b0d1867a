// Rules in words. Pure.

const UNITS = { ms: "millisecond", s: "second", m: "minute", h: "hour", d: "day", w: "week" };

const SINGULAR = Object.fromEntries(Object.values(UNITS).map((unit) => [unit, true]));

const ALGORITHMS = {
  token_bucket: "token bucket",
  fixed_window: "fixed window",
  sliding_window: "sliding window",
  sliding_log: "sliding log",
  in_flight: "in flight",
};

const FACTS = {
  user_id: "user",
  tenant_id: "tenant",
  ip_address: "address",
  api_key: "API key",
  path: "path",
};

const number = new Intl.NumberFormat("en-US");

/** 1234567 → "1,234,567". */
export function count(n) {
  return typeof n === "number" && Number.isFinite(n) ? number.format(n) : String(n ?? "?");
}

/** A rate per second in few characters. */
export function rate(n) {
  if (!(n > 0)) return "0";
  if (n < 0.1) return "<0.1";
  if (n < 10) return n.toFixed(1).replace(/\.0$/, "");
  if (n < 10000) return number.format(Math.round(n));
  return n < 1e6 ? `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

/** "1m" → "minute", "15m" → "15 minutes"; what is no duration stays as it is. */
export function windowInWords(window) {
  const found = /^(\d+)(ms|s|m|h|d|w)$/.exec(String(window ?? ""));
  if (!found) return String(window ?? "?");
  const n = Number(found[1]);
  const unit = UNITS[found[2]];
  return n === 1 ? unit : `${count(n)} ${unit}s`;
}

const SIZES = [["w", 604800000], ["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000], ["ms", 1]];

/** Milliseconds as a window is written: 60000 → "1m". */
export function windowOf(ms) {
  const [unit, size] = SIZES.find(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/** Milliseconds as people say them. */
export function spanInWords(ms) {
  if (!Number.isFinite(ms)) return "?";
  if (ms < 1000) return `${Math.ceil(ms)} ms`;
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${count(Math.round(hours / 24))} days`;
}

/** `{limit, window, burst, algorithm}` → "100 per minute, burst 120, sliding window". */
export function figuresInWords({ limit, window, burst, algorithm, hold_for: holdFor }) {
  if (limit === 0) return "blocked";
  if (algorithm === "in_flight") {
    return `${count(limit)} at once, each for at most ${longest(holdFor ?? window)}`;
  }
  const parts = [`${count(limit)} per ${windowInWords(window)}`];
  if (burst !== undefined && burst !== null && burst !== limit) parts.push(`burst ${count(burst)}`);
  if (algorithm) parts.push(ALGORITHMS[algorithm] ?? String(algorithm));
  return parts.join(", ");
}

// "1m" → "1 minute".
function longest(window) {
  const words = windowInWords(window);
  return words in SINGULAR ? `1 ${words}` : words;
}

/** What a rule allows. */
export function quotaInWords(rule) {
  if (rule.unlimited) return "no limit";
  if (rule.tiered) return "by tier";
  if (rule.base_limit !== undefined) {
    return `${figuresInWords({ ...rule, limit: rule.base_limit })}, times the plan`;
  }
  return figuresInWords(rule);
}

/** What a rule allows a request, as it was explained: by its tier, its plan or an override. */
export function appliedInWords(said, rule) {
  const { limit, window_ms: ms, capacity: burst, algorithm } = said;
  const figures = figuresInWords({ limit, window: windowOf(ms), burst, algorithm });
  if (rule?.tiered) return `${figures}: this request's tier`;
  if (rule?.base_limit !== undefined) return `${figures}: this request's plan`;
  return rule && rule.limit !== limit ? `${figures} for this one; ${quotaInWords(rule)} otherwise` : figures;
}

/** What else there is to say about it: overrides, costs, charges, waiting. */
export function extrasInWords(rule) {
  const said = [];
  const overrides = Array.isArray(rule.overrides) ? rule.overrides.length : 0;
  if (overrides) said.push(overrides === 1 ? "1 override" : `${count(overrides)} overrides`);
  if (typeof rule.cost === "number" && rule.cost !== 1) said.push(`a request takes ${count(rule.cost)}`);
  else if (rule.cost?.header) said.push(`takes what header ${rule.cost.header} says`);
  else if (rule.cost?.body) said.push(`takes 1 for each ${count(rule.cost.body)} bytes`);
  if (rule.charge) said.push("charged by the answer");
  if (rule.on_limit === "delay") said.push(`waits up to ${rule.max_delay ?? "?"}`);
  return said.join(", ");
}

const list = (value) => (value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]);

/** Whom a rule counts: "each user", "each tenant and user", "all together". */
export function countedInWords(rule) {
  if (rule.descriptor) return "each set of values";
  const facts = list(rule.identifier_type).map((fact) => {
    const [kind, name] = String(fact).split(/:(.*)/s);
    if (kind === "header" || kind === "attribute") return `${kind} ${name}`;
    return FACTS[fact] ?? String(fact);
  });
  if (facts.length === 0 || (facts.length === 1 && facts[0] === "global")) return "all together";
  return `each ${facts.filter((fact) => fact !== "global").join(" and ")}`;
}

/** Which requests a rule is about. */
export function matchInWords(rule) {
  if (rule.descriptor) {
    const entries = list(rule.descriptor.entries).map(({ key, value }) => `${key}=${value ?? "*"}`);
    return `descriptor ${rule.descriptor.domain}: ${entries.join(", ")}`;
  }
  const match = rule.match ?? {};
  const methods = list(match.methods).join(", ");
  const parts = [[methods, match.path_pattern ?? (methods ? "any path" : "")].filter(Boolean).join(" ")];
  if (match.requires_authentication) parts.push("signed in");
  for (const [key, word] of [
    ["required_headers", "header"],
    ["required_attributes", "attribute"],
  ]) {
    for (const [name, value] of Object.entries(match[key] ?? {})) {
      parts.push(value === "*" ? `with ${word} ${name}` : `${word} ${name}: ${value}`);
    }
  }
  const networks = list(match.ip_subnet);
  if (networks.length) parts.push(`from ${networks.join(" or ")}`);
  return parts.filter(Boolean).join(", ") || "every request";
}

const MISSING = {
  ip: "counted by address",
  shared: "counted together",
  skip: "left alone",
  refuse: "refused",
};
const STORELESS = {
  local: "counted by the nodes",
  allow: "let pass",
  deny: "refused",
  local_or_deny: "counted by the nodes; refused in an emergency",
};

/** What becomes of a request without what is counted by. */
export const missingInWords = (rule) => MISSING[rule.on_missing_identity] ?? rule.on_missing_identity ?? "–";

/** What becomes of a request while the store is away. */
export const storelessInWords = (rule) => STORELESS[rule.on_store_failure] ?? rule.on_store_failure ?? "–";

/** All that is searched of a rule, in lower case. */
export function haystack(rule, document = "") {
  const words = [
    rule.rule_id,
    rule.description,
    matchInWords(rule),
    countedInWords(rule),
    quotaInWords(rule),
  ];
  const mode = rule.shadow ? "shadow" : "enforce";
  return [...words, extrasInWords(rule), mode, document, JSON.stringify(rule)].join("\n").toLowerCase();
}

/** Whether every word of `query` is somewhere in `hay`. */
export function found(hay, query) {
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => hay.includes(word));
}

const SECONDS = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400, w: 604800 };

/** How much a rule allows per second, to sort by; what is not known goes last, and so do requests in flight. */
export function strictness(rule) {
  const window = /^(\d+)(ms|s|m|h|d|w)$/.exec(String(rule.window ?? ""));
  const limit = rule.limit ?? rule.base_limit;
  if (!window || limit === undefined) return Number.POSITIVE_INFINITY;
  return limit / (Number(window[1]) * SECONDS[window[2]]);
}

/** A text with what cannot be seen, or turns the text around it, made visible: nobody is to approve what looks like something else. */
export function visible(text) {
  return String(text ?? "").replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (c) => {
      return `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
    },
  );
}

/** A version short enough for a table: that of a file stands for its content and is long. */
export function shortVersion(version) {
  const text = String(version ?? "");
  return text.length > 8 ? `…${text.slice(-6)}` : text;
}

/** A time as people of here read it. */
export function timeInWords(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at ?? "");
  const pad = (n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** "5 minutes ago". */
export function agoInWords(at, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - new Date(at).getTime()) / 1000));
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return "just now";
  for (const [size, unit] of [
    [86400, "day"],
    [3600, "hour"],
    [60, "minute"],
  ]) {
    if (seconds >= size) {
      const n = Math.floor(seconds / size);
      return `${count(n)} ${unit}${n === 1 ? "" : "s"} ago`;
    }
  }
  return "";
}
