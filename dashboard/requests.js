// How much is asked, and how much of it is refused.

import { html } from './vendor-preact.js';
import { Chart } from './charts.js';
import { decided, highest, mean, within } from './columns.js';
import { count, exact, percent, rate, share } from './format.js';
import { Icon } from './icons.js';
import { Empty, Panel } from './parts.js';

// One second is too jumpy to read, and longer hides what just began.
const RECENT = 5;

const SERIES = [
  { label: 'Allowed', colour: '--blue', dash: 0, fill: true, value: (p) => p.decisions.allowed },
  { label: 'Refused', colour: '--red', dash: 1, value: (p) => p.decisions.refused },
  { label: 'Failed open', colour: '--yellow', dash: 2, value: (p) => p.decisions.failed_open },
  { label: 'Shadow', colour: '--purple', dash: 3, value: (p) => p.decisions.shadow_refused },
];

export function Tiles({ points, totals }) {
  const recent = within(points, RECENT);
  const of = (name) => mean(recent, (p) => p.decisions[name]);
  const all = mean(recent, decided);
  const refused = of('refused');
  const open = of('failed_open');
  const unavailable = of('unavailable');
  return html`<section class="tiles" aria-label="Requests now">
    <${Tile} name="Decisions" value=${all} test="rate-decisions">
      <${Total} value=${totals.allowed} test="total-allowed" /> allowed<//>
    <${Tile} name="Refused" value=${refused} test="rate-refused" beside=${all > 0 && percent(share(refused, all))}>
      <${Total} value=${totals.refused} test="total-refused" /> in all<//>
    <${Tile} name="Failed open" value=${open} test="rate-failed-open" wrong=${open > 0 || unavailable > 0} beside=${unavailable > 0 && html`<span title="refused because limits could not be checked">+ ${rate(unavailable)} denied</span>`}>
      <${Total} value=${totals.failed_open} test="total-failed-open" /> passed unchecked<//>
    <${Tile} name="Shadow" value=${of('shadow_refused')} test="rate-shadow">
      <${Total} value=${totals.shadow_refused} test="total-shadow" /> would be refused<//>
  </section>`;
}

const Tile = ({ name, value, test, beside, wrong, children }) => html`<div class="tile ${wrong ? 'is-warning' : ''}">
  <h2>${wrong && html`<${Icon} name="warning" />`}${name}</h2>
  <p class="big"><span data-test=${test} data-value=${value}>${count(value)}<small>/s</small></span>${beside && html`<span class="beside">${beside}</span>`}</p>
  <p class="quiet">${children}</p>
</div>`;

const Total = ({ value, test }) => html`<b data-test=${test} data-value=${value} title=${exact(value)}>${value >= 1e9 ? count(value) : exact(value)}</b>`;

export function Requests({ points, totals, span, extra }) {
  const seen = within(points, span);
  const most = highest(seen, decided);
  const all = mean(seen, decided);
  const part = share(mean(seen, (p) => p.decisions.refused), all);
  const never = totals.allowed + totals.refused + totals.failed_open + totals.unavailable === 0;
  const summary = most > 0 ? `At most ${rate(most)}, ${rate(all)} on average; ${percent(part)} refused.` : 'Nothing was asked in this time.';
  return html`<${Panel} id="requests" title="Requests" wide="third" extra=${extra}>
    <${Chart} title="Requests per second" points=${points} series=${SERIES} unit=${rate} span=${span} summary=${summary}>
      ${never && html`<${Empty}><p>No decisions yet. Try:</p><code>curl -s http://${location.hostname || '127.0.0.1'}:8080/v1/check -d '${'{"method":"GET","resource":"/","user":"alice"}'}'</code><//>`}
    <//>
  <//>`;
}
