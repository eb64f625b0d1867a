// One rule: what it says, what it does at the moment, what became of it over time.

import { html, useCallback, useEffect, useRef, useState } from "./vendor-preact.js";
import { editHref, EXPLAIN, LIST, queryOf, ruleHref } from "./rules-address.js";
import { History } from "./rules-history.js";
import { Tiers } from "./rules-list.js";
import { Ask, Foreign, Heading, Message, Mode, Text, Usage } from "./rules-parts.js";
import { go } from "./rules-route.js";
import { deleteRule, doneInWords, loadRule } from "./rules-source.js";
import {
  countedInWords,
  extrasInWords,
  figuresInWords,
  matchInWords,
  missingInWords,
  quotaInWords,
  storelessInWords,
  visible,
} from "./rules-words.js";

/** The view of rule `id`. */
export function Detail(props) {
  const { api, id, known, documents, usage, live, may, message, say, reload, route } = props;
  const [shown, again] = useRule(api, id, known.version);
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);

  const remove = async () => {
    setBusy(true);
    const outcome = await deleteRule(api, id, shown.version);
    setBusy(false);
    setAsking(false);
    if (outcome.done) {
      reload();
      say("good", doneInWords(outcome.done, "deleted"), {
        hash: LIST,
        href: ruleHref(id),
        link: "It can be had back.",
      });
      go(LIST);
      return;
    }
    say("bad", outcome.errors ? outcome.errors.map(({ message: text }) => text).join("; ") : outcome.problem);
    if (outcome.conflict) again();
  };

  const rule = shown?.rule;
  return html`<article class="rules-view">
    <p class="rules-back"><a href=${LIST}>← All rules</a></p>
    <div class="rules-title">
      <${Heading} at=${route.hash}><${Foreign} text=${id} most=${256} /><//>
      ${rule && html`<${Mode} rule=${rule} />`}
      ${
        rule &&
        html`<div class="rules-actions">
          <button
            type="button"
            class="rules-button rules-button-main"
            data-test="rule-edit"
            disabled=${!may.ok}
            aria-describedby=${may.ok ? undefined : "rules-may-not"}
            onClick=${() => go(editHref(id))}
          >
            Edit
          </button>
          <a class="rules-button" href=${explainHref(rule)}>Explain a request</a>
          <button
            type="button"
            class="rules-button rules-button-danger"
            data-test="rule-delete"
            disabled=${!may.ok}
            aria-describedby=${may.ok ? undefined : "rules-may-not"}
            onClick=${() => setAsking(true)}
          >
            Delete
          </button>
        </div>`
      }
    </div>
    <${Message} message=${message} />
    ${!shown && html`<p class="rules-muted">Loading…</p>`}
    ${
      shown?.problem &&
      html`<p class="rules-message rules-message-bad" role="alert">
        ${shown.problem} <button type="button" class="rules-button" onClick=${again}>Try again</button>
      </p>`
    }
    ${shown && !shown.problem && !rule && html`<${Gone} history=${shown.history} />`}
    ${rule && html`<${Facts} rule=${rule} shown=${shown} documents=${documents} usage=${usage.get(id)} live=${live} />`}
    ${
      shown &&
      !shown.problem &&
      html`<${History}
        api=${api}
        id=${id}
        shown=${shown}
        may=${may}
        say=${say}
        builtIn=${!documents.changeable}
        changed=${() => {
          again();
          reload();
        }}
      />`
    }
    ${
      asking &&
      html`<${Ask}
        title="Delete this rule?"
        yes="Delete it"
        yesTest="delete-confirm"
        danger
        busy=${busy}
        onYes=${remove}
        onNo=${() => setAsking(false)}
      >
        <p>
          Requests will no longer be limited by <b><${Foreign} text=${id} most=${128} /></b>. Its history
          stays, and it can be had back from there.
        </p>
        <${Text} text=${shown.text} />
      <//>`
    }
  </article>`;
}

/** A rule as it is where it comes from, again whenever the rules in force are others. */
export function useRule(api, id, version) {
  const [shown, setShown] = useState(null);
  const turn = useRef(0);
  const again = useCallback(async () => {
    turn.current += 1;
    const mine = turn.current;
    const loaded = await loadRule(api, id);
    if (mine === turn.current) setShown(loaded);
  }, [api, id]);
  useEffect(() => {
    again();
  }, [again, version]);
  useEffect(
    () => () => {
      turn.current = -1;
    },
    [],
  );
  return [shown, again];
}

// A request that the rule would be asked about.
function explainHref(rule) {
  const match = rule.match ?? {};
  const path = String(match.path_pattern ?? "/").replace(/\{[^}]*\}|\*+/g, "x");
  const headers = Object.entries(match.required_headers ?? {})
    .map(([name, value]) => `${name}: ${value === "*" ? "x" : value}`)
    .join("\n");
  const method = [match.methods ?? []].flat()[0] ?? "";
  return `${EXPLAIN}?${queryOf({ path, headers, method, user: match.requires_authentication ? "alice" : "" })}`;
}

function Gone({ history }) {
  return html`<p class="rules-empty">
    ${
      history.length
        ? "This rule is not there any more. What it was is below, and can be had back."
        : "There is no such rule, and nothing is remembered of one."
    }
  </p>`;
}

function Facts({ rule, shown, documents, usage, live }) {
  const document = documents.of.get(rule.rule_id);
  const extras = extrasInWords(rule);
  return html`<div class="rules-columns">
    <div class="rules-panel">
      ${rule.description && html`<p class="rules-lead"><${Foreign} text=${rule.description} most=${4000} /></p>`}
      <dl class="rules-facts">
        <div>
          <dt>Decides now</dt>
          <dd>
            ${live ? html`<${Usage} usage=${usage} wide />` : html`<span class="rules-muted">no live data</span>`}
          </dd>
        </div>
        <div>
          <dt>Applies to</dt>
          <dd class="rules-match"><${Foreign} text=${matchInWords(rule)} most=${2000} /></dd>
        </div>
        <div>
          <dt>Counts</dt>
          <dd>${visible(countedInWords(rule))}</dd>
        </div>
        <div>
          <dt>Allows</dt>
          <dd>
            ${quotaInWords(rule)}<${Tiers}
              rule=${rule}
              documents=${documents}
            />${extras && html`<span class="rules-sub">${extras}</span>`}
          </dd>
        </div>
        ${
          rule.overrides?.length > 0 &&
          html`<div>
            <dt>Overrides</dt>
            <dd><${Overrides} overrides=${rule.overrides} /></dd>
          </div>`
        }
        <div>
          <dt>Priority</dt>
          <dd>${rule.priority ?? 100}</dd>
        </div>
        ${
          !rule.descriptor &&
          html`<div>
            <dt>Without identity</dt>
            <dd>${missingInWords(rule)}</dd>
          </div>`
        }
        <div>
          <dt>Without the store</dt>
          <dd>${storelessInWords(rule)}</dd>
        </div>
        <div>
          <dt>Document</dt>
          <dd>
            ${document ? html`<span class="rules-document"><${Foreign} text=${document.name} /></span>` : documents.changeable ? "one of its own, or not known" : "built in"}
          </dd>
        </div>
        <div>
          <dt>Version</dt>
          <dd data-test="rule-version">${shown.version ?? "–"}</dd>
        </div>
      </dl>
    </div>
    <div class="rules-panel">
      <h2 class="rules-subheading">As it is written</h2>
      ${!shown.exact && documents.changeable && html`<p class="rules-note">This is the rule as the node has understood it. Its own text, with comments, is in its document.</p>`}
      <${Text} text=${shown.text} />
    </div>
  </div>`;
}

function Overrides({ overrides }) {
  const who = ({ identity }) => (identity === undefined ? "everybody" : [identity].flat().join(" / "));
  return html`<ul class="rules-tiers">
    ${overrides.slice(0, 50).map(
      (entry, i) =>
        html`<li key=${i}>
          <b><${Foreign} text=${who(entry)} most=${80} /></b>${" "}
          ${figuresInWords(entry)}${entry.until ? `, until ${entry.until}` : ""}
        </li>`,
    )}
    ${overrides.length > 50 && html`<li class="rules-muted">and ${overrides.length - 50} more</li>`}
  </ul>`;
}
