// Small parts that the views of the Rules page share.

import { html, useEffect, useMemo, useRef } from "./vendor-preact.js";
import { diffLines, folded, sizeOf } from "./diff.js";
import { rate, shortVersion, visible } from "./rules-words.js";

/** Lines of a diff that are put into the page at most. */
const MOST_LINES = 2000;

/** Characters of one of them. */
const MOST_CHARACTERS = 5000;

/** A text that is not ours: kept to itself if it runs the other way, and cut if it is very long. */
export function Foreign({ text, most = 400 }) {
  const whole = visible(String(text ?? "").slice(0, most + 2000));
  const cut = whole.length > most;
  return html`<bdi title=${cut ? whole.slice(0, 2000) : undefined}
    >${cut ? `${whole.slice(0, most)}…` : whole}</bdi
  >`;
}

/** A message of the node, in which `these` are names and values. */
export function Words({ text, most = 600 }) {
  const parts = visible(String(text ?? "").slice(0, most)).split("`");
  return html`<bdi
    >${parts.map((part, i) => (i % 2 === 1 && i < parts.length - 1 ? html`<code key=${i}>${part}</code>` : part))}</bdi
  >`;
}

/** A version, short, the whole of it to be pointed at. */
export function Version({ version }) {
  return html`<span class="rules-version" title=${`version ${version}`}>${shortVersion(version)}</span>`;
}

/** Where one was last, whichever view that was. */
let arrived = null;

/** The heading of a view; it has the focus when one comes to it, so that it is read out. */
export function Heading({ children, at }) {
  const ref = useRef(null);
  useEffect(() => {
    // Not when the page has just been opened: then it is the browser that says where the focus is.
    if (arrived !== null && arrived !== at) ref.current?.focus({ preventScroll: true });
    arrived = at;
  }, [at]);
  return html`<h1 class="rules-heading" tabindex="-1" ref=${ref}>${children}</h1>`;
}

/** What came of something; read out when it changes. */
export function Message({ message }) {
  return html`<div class="rules-message-place" role="status" aria-live="polite">
    ${
      message &&
      html`<p
        class=${`rules-message rules-message-${message.kind}`}
        data-test="rule-message"
        data-kind=${message.kind}
      >
        <${Words} text=${message.text} most=${2000} />
        ${message.href && html` <a href=${message.href}>${message.link}</a>`}
      </p>`
    }
  </div>`;
}

/** A rule as it is written. */
export function Text({ text }) {
  return html`<pre class="rules-text" tabindex="0" aria-label="text of the rule">${visible(text)}</pre>`;
}

/** Whether a rule refuses or only watches. */
export function Mode({ rule }) {
  return rule.shadow
    ? html`<span class="rules-badge rules-badge-shadow" title="counts and reports, never refuses"
        >shadow</span
      >`
    : html`<span class="rules-badge rules-badge-enforce">enforce</span>`;
}

/** What a rule does at the moment: rates, and a bar with the share that is refused. */
export function Usage({ usage, wide }) {
  const allowed = usage?.allowed ?? 0;
  const refused = usage?.refused ?? 0;
  const shadow = usage?.shadow_refused ?? 0;
  // What a rule in shadow would refuse is allowed all the same.
  const sum = allowed + refused;
  if (!(sum + shadow > 0))
    return html`<span class="rules-idle" title="no decision is put down to it at the moment">nothing</span>`;
  // Then it never decides, so that there is nothing that this would be a share of.
  if (sum === 0) return html`<span class="rules-warn">${rate(shadow)}/s would be refused</span>`;
  const bad = refused + shadow;
  const share = Math.min(1, bad / Math.max(sum, bad));
  const percent = share > 0 && share < 0.01 ? "<1" : Math.round(share * 100);
  const would = shadow > 0 ? "would be refused" : "refused";
  return html`<div class=${wide ? "rules-usage rules-usage-wide" : "rules-usage"}>
    <svg class="rules-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rules-bar-good" x="0" y="0" width="100" height="6" />
      <rect
        class=${shadow > 0 ? "rules-bar-shadow" : "rules-bar-bad"}
        x=${100 - share * 100}
        y="0"
        width=${share * 100}
        height="6"
      />
    </svg>
    <span class="rules-usage-words">
      <span>${rate(allowed)}/s allowed</span>
      <span class=${bad === 0 ? "rules-muted" : shadow > 0 ? "rules-warn" : "rules-bad"}
        >${rate(bad)}/s ${would}${bad > 0 ? ` (${percent}%)` : ""}</span
      >
    </span>
  </div>`;
}

/** What changed between two texts. */
export function Diff({ before, after, from, to, test }) {
  const { rows, size, left } = useMemo(() => {
    const diff = diffLines(before, after);
    const all = folded(diff);
    return { rows: all.slice(0, MOST_LINES), size: sizeOf(diff), left: Math.max(0, all.length - MOST_LINES) };
  }, [before, after]);
  const none = size.added + size.removed === 0;
  return html`<div class="rules-diff" data-test=${test}>
    <div class="rules-diff-head">
      <span>${from} → ${to}</span>
      <span class="rules-diff-size"
        >${
          none
            ? "no change"
            : html`<span class="rules-added">+${size.added}</span>${" "}
                <span class="rules-removed">−${size.removed}</span> <span class="rules-hidden"> lines</span>`
        }</span
      >
    </div>
    ${
      !none &&
      html`<div
        class="rules-diff-body"
        tabindex="0"
        role="region"
        aria-label=${`what changes: ${from} to ${to}`}
      >
        <table class="rules-diff-table">
          <tbody>
            ${rows.map((row, i) =>
              row.skipped
                ? html`<tr key=${i} class="rules-diff-skip">
                    <td></td>
                    <td></td>
                    <td></td>
                    <td>${row.skipped} lines are the same</td>
                  </tr>`
                : html`<tr key=${i} class=${ROWS[row.op]}>
                    <td class="rules-diff-number">${row.before}</td>
                    <td class="rules-diff-number">${row.after}</td>
                    <td class="rules-diff-sign">${SIGNS[row.op]}</td>
                    <td class="rules-diff-text">${visible(row.text.slice(0, MOST_CHARACTERS))}</td>
                  </tr>`,
            )}
          </tbody>
        </table>
        ${left > 0 && html`<p class="rules-muted">and ${left} more lines</p>`}
      </div>`
    }
  </div>`;
}

const ROWS = { "+": "rules-diff-added", "-": "rules-diff-removed", "=": "rules-diff-same" };
const SIGNS = { "+": "+", "-": "−", "=": "" };

/** A question that has to be answered before anything happens. */
export function Ask({ title, children, yes, yesTest, danger, busy, onYes, onNo }) {
  const ref = useRef(null);
  const no = useRef(null);
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    no.current?.focus();
    return () => dialog?.close();
  }, []);
  return html`<dialog
    class="rules-dialog"
    ref=${ref}
    aria-label=${title}
    onCancel=${(event) => {
      event.preventDefault();
      onNo();
    }}
  >
    <h2 class="rules-dialog-title">${title}</h2>
    <div class="rules-dialog-body">${children}</div>
    <div class="rules-actions">
      <button
        type="button"
        class=${danger ? "rules-button rules-button-danger" : "rules-button rules-button-main"}
        data-test=${yesTest}
        disabled=${busy}
        onClick=${onYes}
      >
        ${busy ? "One moment…" : yes}
      </button>
      <button type="button" class="rules-button" ref=${no} onClick=${onNo}>Cancel</button>
    </div>
  </dialog>`;
}
