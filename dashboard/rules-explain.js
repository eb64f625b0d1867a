// Why a request is decided as it is: which rules it meets, who it is to each of them, what is left. Consumes nothing.

import { html, useEffect, useMemo, useRef, useState } from "./vendor-preact.js";
import { bodyOf, EXPLAIN, formOf, queryOf, ruleHref } from "./rules-address.js";
import { Foreign, Heading, Message, Words } from "./rules-parts.js";
import { go } from "./rules-route.js";
import { explain } from "./rules-source.js";
import { appliedInWords, count, spanInWords } from "./rules-words.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/** The form and its answer. The address has the form in it, so that it can be passed on. */
export function Explain({ api, known, message, route }) {
  const [form, setForm] = useState(() => formOf(route.query));
  const [result, setResult] = useState(null);
  const [busy, setBusy] = useState(false);
  const turn = useRef(0);
  const place = useRef(null);
  const rules = useMemo(
    () => new Map((known.rules ?? []).map((rule) => [rule.rule_id, rule])),
    [known.rules],
  );

  const ask = async (what) => {
    turn.current += 1;
    const mine = turn.current;
    const { body, errors } = bodyOf(what);
    if (errors) {
      setResult({ errors });
      return;
    }
    setBusy(true);
    const answer = await explain(api, body);
    if (mine !== turn.current) return;
    setBusy(false);
    setResult(answer.field ? { errors: { [answer.field]: answer.message } } : answer);
  };

  // Also when one comes by a link, or goes back.
  useEffect(() => {
    if (route.query === queryOf(form) && result) return;
    const came = formOf(route.query);
    setForm(came);
    setResult(null);
    if (came.path) ask(came);
  }, [route.query]);
  useEffect(
    () => () => {
      turn.current = -1;
    },
    [],
  );

  const submit = (event) => {
    event.preventDefault();
    ask(form);
    const query = queryOf(form);
    // Without this the form as typed, secrets and all, would be replaced by that of the address.
    if (query !== route.query) history.replaceState(null, "", `${EXPLAIN}${query ? `?${query}` : ""}`);
  };
  const errors = result?.errors ?? {};
  useFirstWrong(result);
  useEffect(() => {
    // On a small screen it is below the form.
    if (result?.answer && place.current.getBoundingClientRect().top > innerHeight - 120)
      place.current.scrollIntoView();
  }, [result]);
  const field = (name) => ({ name, form, setForm, error: errors[name] });
  const others = Object.keys(errors).filter((name) => !(name in form));

  return html`<section class="rules-view">
    <${Heading} at=${EXPLAIN}>Explain a request<//>
    <p class="rules-muted">What would be decided about it now, and why. Nothing is counted.</p>
    <${Message} message=${message} />
    <div class="rules-columns rules-columns-explain">
      <form
        class="rules-panel rules-form"
        data-test="explain-form"
        onSubmit=${submit}
        novalidate
        autocomplete="off"
      >
        <div class="rules-form-row rules-form-request">
          <${Method} ...${field("method")} />
          <${Field} ...${field("path")} label="Path" test="explain-path" hint="/orders/7" />
        </div>
        <div class="rules-form-row">
          <${Field} ...${field("user")} label="User" test="explain-user" hint="nobody is signed in" />
          <${Field} ...${field("tenant")} label="Tenant" test="explain-tenant" />
        </div>
        <div class="rules-form-row">
          <${Field} ...${field("ip")} label="Address (IP)" test="explain-ip" hint="203.0.113.7" />
          <${Field}
            ...${field("tier")}
            label="Tier or plan"
            test="explain-tier"
            hint="as the rules find it"
          />
          <${Field} ...${field("cost")} label="Cost" test="explain-cost" hint="1" mode="numeric" />
        </div>
        <${Lines}
          ...${field("headers")}
          label="Headers, one per line"
          test="explain-headers"
          hint="X-Client: mobile"
        />
        <${Lines}
          ...${field("attributes")}
          label="Attributes, one per line"
          test="explain-attributes"
          hint="region: eu"
        />
        ${others.map((name) => html`<p key=${name} class="rules-field-error" role="alert">${name}: <${Foreign} text=${errors[name]} /></p>`)}
        <div class="rules-actions">
          <button
            type="submit"
            class="rules-button rules-button-main"
            data-test="explain-submit"
            disabled=${busy}
          >
            ${busy ? "One moment…" : "Explain"}
          </button>
          <button
            type="button"
            class="rules-button"
            onClick=${() => {
              setForm(formOf(""));
              setResult(null);
              go(EXPLAIN);
            }}
          >
            Clear
          </button>
        </div>
        <p class="rules-muted">
          The address of this page has the request in it, without headers that are secrets.
        </p>
      </form>
      <div
        class="rules-panel"
        ref=${place}
        data-test="explain-result"
        role="status"
        aria-live="polite"
        aria-busy=${busy}
      >
        ${result?.problem && html`<p class="rules-message rules-message-bad">${result.problem}</p>`}
        ${result?.answer && html`<${Answer} answer=${result.answer} rules=${rules} />`}
        ${result?.errors && html`<p class="rules-bad">Something is wrong with the request; see the form.</p>`}
        ${!result && html`<p class="rules-muted">Describe a request: the answer comes here.</p>`}
      </div>
    </div>
  </section>`;
}

function useFirstWrong(result) {
  useEffect(() => {
    if (result?.errors) document.querySelector(".rules-form [aria-invalid=true]")?.focus();
  }, [result]);
}

function described(name, error) {
  return {
    id: `rules-explain-${name}`,
    "aria-invalid": Boolean(error),
    "aria-describedby": error ? `rules-wrong-${name}` : undefined,
  };
}

function Wrong({ name, error }) {
  return error
    ? html`<span class="rules-field-error" id=${`rules-wrong-${name}`} data-test=${`explain-error-${name}`}
        ><${Words} text=${error}
      /></span>`
    : null;
}

function Field({ name, form, setForm, error, label, test, hint, mode }) {
  return html`<div class="rules-field">
    <label class="rules-label" for=${`rules-explain-${name}`}>${label}</label>
    <input
      type="text"
      ...${described(name, error)}
      data-test=${test}
      value=${form[name]}
      placeholder=${hint}
      inputmode=${mode}
      spellcheck=${false}
      autocapitalize="off"
      onInput=${(event) => setForm({ ...form, [name]: event.target.value })}
    />
    <${Wrong} name=${name} error=${error} />
  </div>`;
}

function Lines({ name, form, setForm, error, label, test, hint }) {
  return html`<div class="rules-field">
    <label class="rules-label" for=${`rules-explain-${name}`}>${label}</label>
    <textarea
      rows="2"
      ...${described(name, error)}
      data-test=${test}
      value=${form[name]}
      placeholder=${hint}
      spellcheck=${false}
      onInput=${(event) => setForm({ ...form, [name]: event.target.value })}
    ></textarea>
    <${Wrong} name=${name} error=${error} />
  </div>`;
}

function Method({ name, form, setForm, error }) {
  const known = METHODS.includes(form.method) || !form.method;
  return html`<div class="rules-field">
    <label class="rules-label" for="rules-explain-method">Method</label>
    <select
      ...${described(name, error)}
      data-test="explain-method"
      value=${form.method}
      onChange=${(event) => setForm({ ...form, method: event.target.value })}
    >
      <option value="">none</option>
      ${METHODS.map((method) => html`<option key=${method} value=${method}>${method}</option>`)}
      ${!known && html`<option value=${form.method}>${form.method.slice(0, 40)}</option>`}</select
    ><${Wrong} name=${name} error=${error} />
  </div>`;
}

const STATUSES = {
  local: "The store is away: this is what the node would decide by itself.",
  disabled: "The store is away, and the rules let requests pass meanwhile.",
  unavailable: "The store is away, and a rule refuses requests meanwhile.",
};

function Answer({ answer, rules }) {
  const applied = answer.rules ?? [];
  return html`<div data-test="explain-answer" data-allowed=${String(answer.allowed)}>
    <p class=${answer.allowed ? "rules-verdict rules-verdict-good" : "rules-verdict rules-verdict-bad"}>
      ${answer.allowed ? "Allowed" : "Refused"}
    </p>
    <p class="rules-lead">${reason(answer, applied)}</p>
    ${STATUSES[answer.status] && html`<p class="rules-note">${STATUSES[answer.status]}</p>`}
    ${answer.mode !== "normal" && html`<p class="rules-note">The node is in mode ${answer.mode}.</p>`}
    ${
      applied.length > 0 &&
      html`<ol class="rules-applied">
        ${applied.map((said) => html`<${Said} key=${said.rule_id} said=${said} rule=${rules.get(said.rule_id)} binding=${said.rule_id === answer.rule_id} />`)}
      </ol>`
    }
  </div>`;
}

function reason(answer, applied) {
  if (applied.length === 0 && !answer.rule_id) return "No rule is about this request, so nothing limits it.";
  const name = html`<b><${Foreign} text=${answer.rule_id} most=${128} /></b>`;
  const met = applied.length === 1 ? "One rule applies." : `${count(applied.length)} rules apply.`;
  if (!answer.allowed) {
    // The answer has whole seconds, as headers do; the rule knows better.
    const binding = applied.find(({ rule_id: id }) => id === answer.rule_id);
    const wait =
      answer.retry_after === null
        ? never(answer)
        : `It could be allowed in ${spanInWords(binding?.retry_after_ms ?? answer.retry_after * 1000)}.`;
    return html`${met} ${name} refuses it. ${wait}`;
  }
  if (answer.limit === null || answer.limit === undefined) return html`${met} ${name} decides.`;
  return html`${met} The closest to its limit is ${name}, with ${count(answer.remaining)} left.`;
}

function never({ limit }) {
  return limit === 0 ? "It is blocked." : "It can never be allowed: it costs more than that rule ever gives.";
}

function Said({ said, rule, binding }) {
  const full = Math.max(said.limit, rule?.burst ?? 0, said.remaining, 1);
  const share = Math.max(0, Math.min(1, said.remaining / full));
  return html`<li class="rules-applied-rule" data-test="explain-rule" data-rule=${said.rule_id}>
    <div class="rules-applied-head">
      <a class="rules-id" href=${ruleHref(said.rule_id)}><${Foreign} text=${said.rule_id} most=${128} /></a>
      ${binding && html`<span class="rules-badge">decides</span>`}
      ${said.shadow && html`<span class="rules-badge rules-badge-shadow">shadow</span>`}
      <span class=${said.allowed ? "rules-good" : said.shadow ? "rules-warn" : "rules-bad"}
        >${verdict(said)}</span
      >
    </div>
    ${said.description && html`<p class="rules-description"><${Foreign} text=${said.description} most=${300} /></p>`}
    <dl class="rules-facts rules-facts-tight">
      <div>
        <dt>Counts it as</dt>
        <dd>
          ${said.identity === null ? "nobody: it insists on an identity that the request lacks" : html`<code><${Foreign} text=${said.identity} most=${300} /></code>`}
        </dd>
      </div>
      <div>
        <dt>Allows</dt>
        <dd>
          ${appliedInWords(said, rule)}
        </dd>
      </div>
      <div>
        <dt>Left</dt>
        <dd>
          <svg class="rules-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
            <rect class="rules-bar-rest" width="100" height="6" />
            <rect
              class=${said.allowed ? "rules-bar-good" : "rules-bar-bad"}
              width=${share * 100}
              height="6"
            />
          </svg>
          ${count(said.remaining)} of${" "}
          ${count(full)}${said.reset_after_ms > 0 ? `, as if never used in ${spanInWords(said.reset_after_ms)}` : ", never used"}
        </dd>
      </div>
    </dl>
  </li>`;
}

function verdict(said) {
  if (said.allowed) return "lets it pass";
  const wait = said.retry_after_ms === null ? "for good" : `for ${spanInWords(said.retry_after_ms)}`;
  return said.shadow ? `would refuse it ${wait}, but only watches` : `refuses it ${wait}`;
}
