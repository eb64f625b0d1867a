// What the Rules page asks the node for, and what it asks it to change.

import { linesOf } from "./diff.js";
import { idsIn, ruleIn, tiersIn, yamlOf } from "./rules-text.js";

/** More documents than this are not read only to say which rule is in which. */
const MOST_DOCUMENTS = 40;

const rulePath = (id) => `/v1/rules/${encodeURIComponent(id)}`;

/** An answer, also if there was none: then its status is 0. */
async function answered(asking) {
  try {
    return await asking;
  } catch (error) {
    return { status: 0, headers: null, json: null, text: String(error?.message ?? error) };
  }
}

/** A header of an answer, whichever way its headers are kept. */
export function headerOf(reply, name) {
  const { headers } = reply;
  if (!headers) return null;
  return (typeof headers.get === "function" ? headers.get(name) : headers[name]) ?? null;
}

/** The version that an answer is tagged with. */
const versionOf = (reply) => headerOf(reply, "etag")?.replace(/^(W\/)?"|"$/g, "") ?? null;

/** What is wrong, in words, with an answer that is not what was hoped for. */
export function problemOf(reply) {
  const said = reply.json?.message ?? "";
  switch (reply.status) {
    case 0:
      return `The node does not answer (${reply.text || "no connection"}). Is it running? Try again.`;
    case 401:
      return `A token is needed: ${said || "sign in with one"}`;
    case 403:
      return `You may not do this: ${said || "your token lacks the role"}`;
    case 409:
      return said || "This cannot be changed here.";
    case 502:
      return said
        ? `Where the rules come from refuses, nothing was changed: ${said}`
        : "The node does not answer (status 502). Try again.";
    case 503:
      return said
        ? `Where the rules come from is away, nothing was changed: ${said}`
        : "The node is not ready (status 503). Try again.";
    default:
      return said || `The node answered with status ${reply.status}.`;
  }
}

/** The rules in force: `{rules, aside, version, documentVersion}` or `{problem}`. */
export async function loadRules(api) {
  const reply = await answered(api.get("/v1/rules"));
  if (reply.status !== 200 || !Array.isArray(reply.json?.rules)) return { problem: problemOf(reply) };
  const { rules, aside = [], rules_version: version, document_version: documentVersion } = reply.json;
  return { rules, aside, version, documentVersion };
}

/**
 * Where rules are written: `{changeable, why, documents, of, tiers, plans}`, `of` a map from ids to documents. The list of
 * rules does not say it, so documents are looked through, as far as there are not too many.
 */
export async function loadDocuments(api, rules) {
  const nothing = { changeable: true, why: "", documents: [], of: new Map(), tiers: [], plans: [] };
  const reply = await answered(api.get("/v1/documents"));
  if (reply.status === 409) return { ...nothing, changeable: false, why: problemOf(reply) };
  if (reply.status !== 200) return nothing;
  const documents = reply.json?.documents ?? [];
  const of = new Map();
  const ids = new Set(rules.map((rule) => rule.rule_id));
  for (const document of documents) {
    const id = baseName(document.name);
    if (ids.has(id)) of.set(id, document);
  }
  const tiers = new Map();
  const plans = new Map();
  const others = documents.filter((document) => of.get(baseName(document.name)) !== document);
  for (const document of others.slice(0, MOST_DOCUMENTS)) {
    const { status, text } = await answered(api.get(`/v1/documents/${encodeURIComponent(document.name)}`));
    if (status !== 200) continue;
    for (const id of idsIn(text)) if (ids.has(id)) of.set(id, document);
    const found = tiersIn(text);
    for (const tier of found.tiers) tiers.set(tier.name, tier);
    for (const plan of found.plans) plans.set(plan.name, plan);
  }
  return { ...nothing, documents, of, tiers: [...tiers.values()], plans: [...plans.values()] };
}

/** "/etc/rules/orders.yaml" → "orders". */
function baseName(name) {
  return String(name)
    .replace(/^.*\//, "")
    .replace(/\.(ya?ml|json)$/, "");
}

/**
 * One rule: `{rule, version, text, exact, history, historyProblem}`; `rule` is null if it is not there (any more), and
 * `exact` is false if the text is not as its author wrote it. `{problem}` if the node does not tell.
 */
export async function loadRule(api, id) {
  const [shown, told] = await Promise.all([
    answered(api.get(rulePath(id))),
    answered(api.get(`${rulePath(id)}/history`)),
  ]);
  if (shown.status !== 200 && shown.status !== 404) return { problem: problemOf(shown) };
  const history = told.status === 200 ? (told.json?.changes ?? []) : [];
  const historyProblem = told.status === 200 ? null : problemOf(told);
  if (shown.status === 404)
    return { rule: null, version: null, text: "", exact: true, history, historyProblem };
  const rule = shown.json;
  const version = versionOf(shown);
  return { rule, version, history, historyProblem, ...(await textOf(api, rule, version, history)) };
}

// The node shows rules as it has understood them. Their text is in their history, or in their document.
async function textOf(api, rule, version, history) {
  const last = history[0];
  if (last?.after && String(last.version) === version) return { text: ended(last.after), exact: true };
  const reply = await answered(api.get("/v1/documents"));
  const documents = reply.status === 200 ? (reply.json?.documents ?? []) : [];
  for (const { name } of documents.filter((document) => String(document.version) === version)) {
    const document = await answered(api.get(`/v1/documents/${encodeURIComponent(name)}`));
    const text =
      document.status === 200 && versionOf(document) === version ? ruleIn(document.text, rule) : null;
    if (text !== null) return { text, exact: true };
  }
  return { text: yamlOf(rule), exact: false };
}

const ended = (text) => (text.endsWith("\n") ? text : `${text}\n`);

/** Whether two texts say the same in all lines. */
export function sameText(a, b) {
  const [x, y] = [linesOf(a), linesOf(b)];
  return x.length === y.length && x.every((line, i) => line === y[i]);
}

/**
 * What is wrong with the text of a rule: `{errors, note}`, or `{problem}` if that cannot be told. It is looked at as `id` among all
 * other rules where that can be done, or else by itself. `fresh`: there must not be one of that name.
 */
export async function validate(api, id, text, fresh) {
  const headers = { "content-type": "application/yaml", ...(fresh && id !== null ? condition(null) : {}) };
  const ask = (query) => answered(api.send("POST", `/v1/rules/validate${query}`, text, headers));
  const among = id === null ? null : wrongIn(await ask(`?rule_id=${encodeURIComponent(id)}`));
  if (among?.errors) return { errors: among.errors, note: "" };
  const alone = wrongIn(await ask(""));
  if (!alone.errors) return alone;
  // Where others come from, there may be tiers.
  const errors = alone.errors.filter(({ message }) => !/there are no tiers/.test(message));
  return { errors, note: `${among ? `${among.problem} ` : ""}It was looked at by itself.` };
}

// `{errors}`, none of them if all is well, or `{problem}`.
function wrongIn(reply) {
  if (reply.status === 200) return { errors: [] };
  if (Array.isArray(reply.json?.errors)) return { errors: reply.json.errors };
  const problem = problemOf(reply);
  return [412, 422].includes(reply.status) ? { errors: [{ line: 1, column: 1, message: problem }] } : { problem };
}

/** The condition under which a change is made: that the rule is as it was read. */
const condition = (version) => (version === null ? { "if-none-match": "*" } : { "if-match": `"${version}"` });

/** Writes a rule; `version` is the one it was read at, null if it is new. */
export async function saveRule(api, id, text, version) {
  const headers = { "content-type": "application/yaml", ...condition(version) };
  return outcome(await answered(api.send("PUT", rulePath(id), text, headers)));
}

/** Deletes a rule. */
export async function deleteRule(api, id, version) {
  return outcome(await answered(api.send("DELETE", rulePath(id), undefined, condition(version))));
}

/** Has a rule be what it was at `to`. */
export async function rollBack(api, id, to, version) {
  const headers = { "content-type": "application/json", ...condition(version) };
  const body = JSON.stringify({ to_version: to });
  return outcome(await answered(api.send("POST", `${rulePath(id)}/rollback`, body, headers)));
}

/** What would be decided about a request: `{answer}`, `{field, message}` or `{problem}`. */
export async function explain(api, body) {
  const headers = { "content-type": "application/json" };
  const reply = await answered(api.send("POST", "/v1/explain", JSON.stringify(body), headers));
  if (reply.status === 200) return { answer: reply.json };
  if (reply.status === 400 && reply.json?.field) {
    const message = String(reply.json.message).replace(/ at line \d+ column \d+$/, "");
    const field = reply.json.field.split(".")[0];
    return { field: field === "resource" ? "path" : field, message };
  }
  return { problem: problemOf(reply) };
}

// `{done}`, or `{conflict}` with the version that it has, `{errors}`, or `{problem}`.
function outcome(reply) {
  if (reply.status === 200 || reply.status === 201) return { done: reply.json };
  if (reply.status === 412) return { conflict: true, version: versionOf(reply), problem: problemOf(reply) };
  if (reply.status === 422 && Array.isArray(reply.json?.errors)) return { errors: reply.json.errors };
  return { problem: problemOf(reply) };
}

/** What a change has done, in words. */
export function doneInWords(done, verb) {
  if (!done.changed) return `Nothing had to be changed: rule ${done.name} is like that already.`;
  const what = `Rule ${done.name} ${verb}.`;
  if (done.version === null)
    return done.in_force
      ? `${what} It is no longer in force.`
      : `${what} It may be in force for another moment.`;
  const where = done.in_force ? "is in force on this node" : "is written, but not in force on this node yet";
  return `${what} Version ${done.version} ${where}.`;
}
