// All rules in force: to be searched and sorted, with what each does at the moment.

import { html, useEffect, useMemo, useRef, useState } from "./vendor-preact.js";
import { NEW, ruleHref } from "./rules-address.js";
import { Foreign, Heading, Message, Mode, Usage, Version, Words } from "./rules-parts.js";
import {
  count,
  countedInWords,
  extrasInWords,
  figuresInWords,
  found,
  haystack,
  matchInWords,
  quotaInWords,
  strictness,
} from "./rules-words.js";

/** Rows that are put into the page at once. */
const PAGE = 200;
const MOST_TIERS = 4;

const ORDERS = {
  priority: "priority",
  id: "name",
  busy: "busiest first",
  refused: "most refused first",
  strict: "strictest first",
};

/** What was searched for last, so that it is still there when one comes back. */
const remembered = { query: "", order: "priority" };

/** The list. */
export function List({ known, documents, usage, live, may, message, reload, route }) {
  const [query, setQuery] = useState(remembered.query);
  const [order, setOrder] = useState(remembered.order);
  const [shown, setShown] = useState(PAGE);
  const search = useRef(null);
  useSlash(search);
  useEffect(() => {
    Object.assign(remembered, { query, order });
    setShown(PAGE);
  }, [query, order]);

  const rules = known.rules ?? [];
  const hay = useMemo(
    () => new Map(rules.map((rule) => [rule, haystack(rule, documents.of.get(rule.rule_id)?.name)])),
    [rules, documents],
  );
  const hits = useMemo(
    () => (query.trim() ? rules.filter((rule) => found(hay.get(rule), query.trim())) : rules),
    [rules, hay, query],
  );
  const sorted = useMemo(
    () => inOrder(hits, order, usage),
    [hits, order, order === "busy" || order === "refused" ? usage : null],
  );
  const rows = sorted.slice(0, shown);

  return html`<section class="rules-view">
    <${Heading} at=${route.hash}>Rules in force<//>
    <${Message} message=${message} />
    ${
      known.problem &&
      html`<p class="rules-message rules-message-bad" role="alert">
        ${known.problem} <button type="button" class="rules-button" onClick=${reload}>Try again</button>
      </p>`
    }
    <${Aside} aside=${known.aside} />
    ${
      rules.length > 0 &&
      html`<div class="rules-tools">
        <label class="rules-search"
          ><span class="rules-label">Search <kbd>/</kbd></span>
          <input
            type="search"
            ref=${search}
            data-test="rules-search"
            value=${query}
            placeholder="name, path, quota, document…"
            maxlength="200"
            autocomplete="off"
            spellcheck=${false}
            onInput=${(event) => setQuery(event.target.value)}
        /></label>
        <label
          ><span class="rules-label">Sorted by</span>
          <select data-test="rules-sort" value=${order} onChange=${(event) => setOrder(event.target.value)}>
            ${Object.entries(ORDERS).map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}
          </select></label
        >
        <p class="rules-count" data-test="rule-count" role="status" aria-live="polite">
          ${countInWords(hits.length, rules.length)}
        </p>
      </div>`
    }
    ${known.loading && html`<p class="rules-muted">Loading the rules…</p>`}
    ${!known.loading && !known.problem && rules.length === 0 && html`<${Empty} may=${may} />`}
    ${
      rules.length > 0 &&
      hits.length === 0 &&
      html`<p class="rules-empty">
        No rule has all of these words.
        <button
          type="button"
          class="rules-button"
          onClick=${() => {
            setQuery("");
            search.current?.focus();
          }}
        >
          Show all
        </button>
      </p>`
    }
    ${rows.length > 0 && html`<${Table} rows=${rows} documents=${documents} usage=${usage} live=${live} />`}
    ${
      sorted.length > rows.length &&
      html`<p class="rules-more">
        <button
          type="button"
          class="rules-button"
          data-test="rules-more"
          onClick=${() => setShown(shown + PAGE)}
        >
          Show ${count(Math.min(PAGE, sorted.length - rows.length))} more
        </button>
        <span class="rules-muted"
          >${count(rows.length)} of ${count(sorted.length)} shown; searching looks at all of them</span
        >
      </p>`
    }
  </section>`;
}

function countInWords(hits, all) {
  const word = all === 1 ? "rule" : "rules";
  return hits === all ? `${count(all)} ${word}` : `${count(hits)} of ${count(all)} ${word}`;
}

function inOrder(rules, order, usage) {
  const by = {
    id: (a, b) => (a.rule_id < b.rule_id ? -1 : 1),
    busy: (a, b) => total(usage.get(b.rule_id)) - total(usage.get(a.rule_id)),
    refused: (a, b) => refusals(usage.get(b.rule_id)) - refusals(usage.get(a.rule_id)),
    strict: (a, b) => compare(strictness(a), strictness(b)),
  }[order];
  return by ? [...rules].sort(by) : rules;
}

const compare = (a, b) => (a === b ? 0 : a < b ? -1 : 1);
const refusals = (entry) => (entry ? entry.refused + (entry.shadow_refused ?? 0) : 0);
const total = (entry) => (entry ? entry.allowed + refusals(entry) : 0);

// `/` goes to the search, as long as one is not writing.
function useSlash(search) {
  useEffect(() => {
    const pressed = (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable], dialog")) return;
      if (!search.current) return;
      event.preventDefault();
      search.current.focus();
      search.current.select();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Empty({ may }) {
  return html`<div class="rules-empty">
    <p><strong>There are no rules: everything is allowed.</strong></p>
    <p>
      ${
        may.ok
          ? html`<a href=${NEW}>Write the first one</a>, or put a document with <code>rules:</code> where the
              node reads them.`
          : html`Put a document with <code>rules:</code> where the node reads them (<code>--rules SOURCE</code
              >).`
      }
    </p>
  </div>`;
}

function Aside({ aside }) {
  if (!aside?.length) return null;
  return html`<div class="rules-message rules-message-warn" data-test="rules-aside">
    <p>
      <strong
        >${aside.length === 1 ? "A document is" : `${count(aside.length)} documents are`} not in force,
        because something is wrong.</strong
      >
    </p>
    <ul class="rules-plain">
      ${aside.slice(0, 20).map(
        (document) =>
          html`<li key=${document.document}>
            <code><${Foreign} text=${document.document} /></code>, version${" "}
            ${document.version}${document.replaced ? "; its last good version is in force" : ""}
            <ul>
              ${(document.errors ?? []).slice(0, 10).map((error, i) => html`<li key=${i}>line ${error.line}, column ${error.column}: <${Words} text=${error.message} /></li>`)}
            </ul>
          </li>`,
      )}
    </ul>
  </div>`;
}

function Table({ rows, documents, usage, live }) {
  return html`<table class="rules-table">
    <caption class="rules-hidden">
      Rules in force
    </caption>
    <thead>
      <tr>
        <th scope="col">Rule</th>
        <th scope="col">Applies to</th>
        <th scope="col">Allows</th>
        <th scope="col">Mode</th>
        <th scope="col">${live ? "Decides now" : "Decides now (no live data)"}</th>
        <th scope="col">Document</th>
      </tr>
    </thead>
    <tbody>
      ${rows.map((rule) => html`<${Row} key=${rule.rule_id} rule=${rule} documents=${documents} usage=${usage.get(rule.rule_id)} live=${live} />`)}
    </tbody>
  </table>`;
}

function Row({ rule, documents, usage, live }) {
  const document = documents.of.get(rule.rule_id);
  const extras = extrasInWords(rule);
  return html`<tr data-test="rule-row" data-rule=${rule.rule_id}>
    <th scope="row">
      <a class="rules-id" href=${ruleHref(rule.rule_id)}><${Foreign} text=${rule.rule_id} most=${128} /></a>
      ${rule.description && html`<span class="rules-description"><${Foreign} text=${rule.description} most=${160} /></span>`}
    </th>
    <td data-label="Applies to">
      <div>
        <span class="rules-match"><${Foreign} text=${matchInWords(rule)} most=${240} /></span>
        <span class="rules-sub">counts <${Foreign} text=${countedInWords(rule)} most=${120} /></span>
      </div>
    </td>
    <td data-label="Allows">
      <div>
        ${quotaInWords(rule)}<${Tiers} rule=${rule} documents=${documents} most=${MOST_TIERS} />
        ${extras && html`<span class="rules-sub"><${Foreign} text=${extras} most=${160} /></span>`}
      </div>
    </td>
    <td data-label="Mode"><${Mode} rule=${rule} /></td>
    <td data-label="Decides now">
      ${live ? html`<${Usage} usage=${usage} />` : html`<span class="rules-muted">–</span>`}
    </td>
    <td data-label="Document">
      <div>
        ${
          document
            ? html`<span class="rules-document" title=${document.name}
                  ><${Foreign} text=${shortName(document.name)} most=${80}
                /></span>
                <span class="rules-sub">version <${Version} version=${document.version} /></span>`
            : html`<span class="rules-muted">${documents.changeable ? "–" : "built in"}</span>`
        }
      </div>
    </td>
  </tr>`;
}

const shortName = (name) => String(name).replace(/^.*\//, "");

/** What a rule allows in each tier or plan, where it depends on that. */
export function Tiers({ rule, documents, most = 100 }) {
  const lines = rule.tiered
    ? documents.tiers.map((tier) => [tier.name, figuresInWords(tier)])
    : rule.base_limit !== undefined
      ? documents.plans.map((plan) => [
          plan.name,
          figuresInWords({
            ...(rule.algorithm === "in_flight" ? rule : { window: rule.window }),
            limit: Math.floor(rule.base_limit * plan.times + 1e-9),
          }),
        ])
      : [];
  if (lines.length === 0) return null;
  return html`<ul class="rules-tiers">
    ${lines.slice(0, most).map(
      ([name, words]) =>
        html`<li key=${name}>
          <b><${Foreign} text=${name} most=${40} /></b> ${words}
        </li>`,
    )}
    ${lines.length > most && html`<li class="rules-muted">and ${count(lines.length - most)} more</li>`}
  </ul>`;
}
