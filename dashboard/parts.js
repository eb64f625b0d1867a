// Pieces that several panels are made of.

import { html, useErrorBoundary } from './vendor-preact.js';
import { Icon } from './icons.js';
import { percent, safeLink } from './format.js';

/** A part of the page with its heading; `extra` sits beside it. One that is the whole page has the heading of the page. */
export function Panel({ id, title, extra, wide, test, whole, children }) {
  return html`<section class="panel ${wide ?? ''}" aria-labelledby=${`h-${id}`} data-test=${test}>
    <header class="panel-head"><${whole ? 'h1' : 'h2'} id=${`h-${id}`}>${title}<//>${extra}</header>
    ${children}
  </section>`;
}

/** Keeps a part that fails from taking the page with it: a node may be older or newer than one thinks. */
export function Guard({ wide, children }) {
  const [error, again] = useErrorBoundary();
  if (!error) return children;
  return html`<section class="panel ${wide ?? ''}" role="alert" data-test="failed"><${Pill} level="warning">This part cannot be shown<//>
    <p class="quiet"><${Words} text=${error.message ?? error} /></p><p><button type="button" class="primary" onClick=${again}>Try again</button></p></section>`;
}

/** Why there is nothing, and what to do about it. */
export const Empty = ({ children }) => html`<div class="empty"><${Icon} name="info" /><div>${children}</div></div>`;

// Names come from clients and can be as long as they like; the whole of it is there on hover, within reason.
const LONGEST_TITLE = 300;
const short = (text) => (text.length > LONGEST_TITLE ? `${text.slice(0, LONGEST_TITLE)}…` : text);

/** A name somebody else chose, on one line. `bdi` keeps right-to-left ones from reordering what is beside them. */
export function Name({ text, none = '(none)' }) {
  if (text === null || text === undefined || text === '') return html`<span class="name quiet">${none}</span>`;
  const whole = short(String(text));
  return html`<bdi class="name" title=${whole}>${whole}</bdi>`;
}

/** A sentence that may have such a name in it. */
export const Words = ({ text }) => html`<bdi class="words" title=${short(String(text ?? ''))}>${short(String(text ?? ''))}</bdi>`;

/** `level` (ok, info, warning, critical, unknown) as icon, colour and word. */
export const Pill = ({ level, icon, children, test, value }) =>
  html`<span class="pill is-${level}" data-test=${test} data-value=${value}><${Icon} name=${icon ?? level} />${children}</span>`;

export const severityLevel = (severity) => (['critical', 'warning', 'info'].includes(severity) ? severity : 'info');

const MODES = { normal: ['ok', 'Normal'], degraded: ['warning', 'Degraded'], emergency: ['critical', 'Emergency'] };
/** Level and word of a mode. */
export const modeWords = (mode) => MODES[mode] ?? ['unknown', String(mode ?? 'Unknown')];

const BREAKERS = { closed: ['ok', 'ok', 'Closed'], 'half-open': ['warning', 'half', 'Half-open'], open: ['critical', 'critical', 'Open'] };
export function Breaker({ state }) {
  const [level, icon, word] = BREAKERS[state] ?? ['unknown', 'unknown', String(state ?? 'Unknown')];
  return html`<${Pill} level=${level} icon=${icon} value=${state}>${word}<//>`;
}

/** A link to a runbook: where operators keep theirs, if that is a whole address, or else to the one that comes with the node. */
export function Runbook({ href }) {
  const own = /^[^:]*#([a-z_]+)$/.exec(href ?? '');
  if (own) return html`<a class="runbook" href=${`#/runbook/${own[1]}`}>Runbook</a>`;
  const link = safeLink(href);
  return link && html`<a class="runbook" href=${link} target="_blank" rel="noopener noreferrer">Runbook</a>`;
}

/** One of a few choices: buttons, of which one is pressed. */
export const Choice = ({ label, options, value, onChange }) =>
  html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(([key, words]) => html`<button type="button" key=${key} aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${words}</button>`)}
  </div>`;

/** Rows of name, bar and figures; bars are relative to the longest. */
export function Bars({ caption, head, rows, colour = 'refused', test, rowTest }) {
  const most = Math.max(...rows.map((row) => row.size), 0);
  return html`<table class="bars" data-test=${test}>
    <caption class="visually-hidden">${caption}</caption>
    <colgroup><col />${head.slice(1).map(() => html`<col class="bars-figure" />`)}</colgroup>
    <thead><tr>${head.map((words, i) => html`<th scope="col" class=${i ? 'num' : ''}>${words}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${i} data-test=${rowTest} title=${row.title}>
      <th scope="row"><div class="bar-name">${row.icon}<${Name} text=${row.name} none=${row.none} />${row.beside}</div>
        <div class="bar" aria-hidden="true"><span class="fill-${colour}" style=${{ width: `${most > 0 ? (100 * row.size) / most : 0}%` }}></span></div></th>
      ${row.cells.map((cell) => html`<td class="num">${cell}</td>`)}
    </tr>`)}</tbody>
  </table>`;
}

/** A share of something limited. The thresholds are those of the alerts. */
export const Meter = ({ label, value, high = 0.8, critical = 0.9 }) => {
  if (value === null || value === undefined) return html`<span class="quiet" title="not known">–</span>`;
  const level = value > critical ? 'critical' : value > high ? 'warning' : 'ok';
  return html`<span class="meter is-${level}">${level !== 'ok' && html`<${Icon} name=${level} />`}<span>${percent(value)}</span>
    <span class="meter-box" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(value * 100)}><span style=${{ width: `${Math.min(100, value * 100)}%` }}></span></span></span>`;
};
