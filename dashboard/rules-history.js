// What became of a rule over time, and going back.

import { html, useMemo, useState } from "./vendor-preact.js";
import { diffLines, sizeOf } from "./diff.js";
import { Ask, Diff, Foreign, Version } from "./rules-parts.js";
import { doneInWords, rollBack, sameText } from "./rules-source.js";
import { agoInWords, shortVersion, timeInWords } from "./rules-words.js";

const ACTIONS = { created: "created", changed: "changed", deleted: "deleted", rolled_back: "rolled back" };
const PAGE = 10;

/** The history of rule `id`, newest first; `changed` is called after going back. */
export function History({ api, id, shown, may, say, changed, builtIn }) {
  const [most, setMost] = useState(PAGE);
  const [target, setTarget] = useState(null);
  const [busy, setBusy] = useState(false);
  const { history, historyProblem, rule, text, version, exact } = shown;
  const present = rule ? text : null;
  const isNow = (after) =>
    after === null ? present === null : present !== null && exact && sameText(after, present);

  const confirmed = async () => {
    setBusy(true);
    const outcome = await rollBack(api, id, target.version, version);
    setBusy(false);
    setTarget(null);
    if (outcome.done) say("good", doneInWords(outcome.done, `rolled back to version ${target.version}`));
    else if (outcome.conflict)
      say("warn", `${outcome.problem}. It is shown now as it has become; decide anew.`);
    else say("bad", outcome.errors ? inWords(outcome.errors) : outcome.problem);
    changed();
  };

  const oldest = history.at(-1);
  const elsewhere = history.length > 0 && !isNow(history[0].after);
  return html`<section class="rules-panel" data-test="rule-history" aria-labelledby="rules-history-title">
    <h2 class="rules-subheading" id="rules-history-title">History</h2>
    ${historyProblem && html`<p class="rules-muted">${builtIn ? "Built-in rules have no history." : historyProblem}</p>`}
    ${!historyProblem && history.length === 0 && html`<p class="rules-muted">Nothing is remembered: it has been like this since it was put there by other means.</p>`}
    ${elsewhere && exact && html`<p class="rules-note">It has been changed since the last of these, by other means.</p>`}
    <ol class="rules-history">
      ${history
        .slice(0, most)
        .map(
          (entry) =>
            html`<${Entry}
              key=${`${entry.at} ${entry.version}`}
              entry=${entry}
              now=${isNow(entry.after)}
              may=${may}
              back=${() => setTarget({ version: entry.version, text: entry.after })}
            />`,
        )}
      ${
        history.length > 0 &&
        history.length <= most &&
        oldest.before !== null &&
        oldest.previous_version !== null &&
        html`<li class="rules-history-entry" data-test="history-row" data-version=${oldest.previous_version}>
          <div class="rules-history-line">
            <span class="rules-badge">before</span> <span>what was there before the first of these</span>
            <span class="rules-muted">version <${Version} version=${oldest.previous_version} /></span>
            <${Back}
              may=${may}
              now=${isNow(oldest.before)}
              back=${() => setTarget({ version: oldest.previous_version, text: oldest.before })}
            />
          </div>
        </li>`
      }
    </ol>
    ${history.length > most && html`<button type="button" class="rules-button" onClick=${() => setMost(most + PAGE)}>Show older</button>`}
    ${
      target &&
      html`<${Ask}
        title=${`Roll back to version ${target.version}?`}
        yes="Roll back"
        yesTest="rollback-confirm"
        busy=${busy}
        onYes=${confirmed}
        onNo=${() => setTarget(null)}
      >
        <p>
          ${present === null ? "The rule comes back as it was." : "The rule becomes again what it was. This is a change like any other: it is in the history, and can be undone."}
        </p>
        <${Diff}
          before=${present ?? ""}
          after=${target.text ?? ""}
          from=${present === null ? "not there" : "now"}
          to=${`version ${shortVersion(target.version)}`}
        />
      <//>`
    }
  </section>`;
}

const inWords = (errors) =>
  errors.map(({ line, column, message }) => `line ${line}, column ${column}: ${message}`).join("; ");

function Entry({ entry, now, may, back }) {
  const [open, setOpen] = useState(false);
  const { added, removed } = useMemo(
    () => sizeOf(diffLines(entry.before, entry.after)),
    [entry.before, entry.after],
  );
  const to = entry.to_version === undefined ? "" : ` to ${shortVersion(entry.to_version)}`;
  return html`<li class="rules-history-entry" data-test="history-row" data-version=${entry.version}>
    <div class="rules-history-line">
      <span class=${`rules-badge rules-badge-${entry.action}`}
        >${ACTIONS[entry.action] ?? String(entry.action).slice(0, 30)}${to}</span
      >
      <span
        >by <b><${Foreign} text=${entry.by} most=${80} /></b
      ></span>
      <time datetime=${entry.at} title=${entry.at}
        ><${Foreign} text=${timeInWords(entry.at)} most=${40} />${" "}
        <span class="rules-muted">(${agoInWords(entry.at)})</span></time
      >
      <span class="rules-muted">version <${Version} version=${entry.version} /></span>
      ${entry.after !== null && html`<${Back} may=${may} now=${now} back=${back} />`}
    </div>
    ${entry.message && html`<p class="rules-history-words"><${Foreign} text=${entry.message} most=${1000} /></p>`}
    <details onToggle=${(event) => setOpen(event.target.open)}>
      <summary>
        What changed <span class="rules-added">+${added}</span> <span class="rules-removed">−${removed}</span>
      </summary>
      ${open && html`<${Diff} before=${entry.before ?? ""} after=${entry.after ?? ""} from=${entry.before === null ? "not there" : "before"} to=${entry.after === null ? "deleted" : "after"} />`}
    </details>
  </li>`;
}

function Back({ may, now, back }) {
  if (now) return html`<span class="rules-now">as it is now</span>`;
  return html`<button
    type="button"
    class="rules-button rules-button-small"
    data-test="rule-rollback"
    disabled=${!may.ok}
    aria-describedby=${may.ok ? undefined : "rules-may-not"}
    onClick=${back}
  >
    Roll back to this
  </button>`;
}
