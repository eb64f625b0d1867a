// The first question of whoever is on call: is it well, and if not, what is wrong?

import { html } from './vendor-preact.js';
import { Icon } from './icons.js';
import { Breaker, modeWords, Name, Pill, Runbook, severityLevel, Words } from './parts.js';
import { worstBreaker } from './columns.js';
import { ago, clock, exact, plural, span } from './format.js';

const SHOWN = 4;
const MEANING = {
  normal: 'Limits are enforced as the rules say.',
  degraded: 'Something that this node needs is not there.',
  emergency: 'This node is on its own: it hears neither the store nor other nodes.',
};

export function Banner({ state, phase, lastAt, now }) {
  const lost = phase === 'lost';
  const reasons = state.reasons ?? [];
  const [usual, word] = lost ? ['unknown', 'Unknown'] : modeWords(state.mode);
  // What is wrong is to be seen before it has lasted long enough to make the mode another.
  const level = usual === 'ok' && reasons.length ? 'warning' : usual;
  return html`<section class="banner is-${level}" data-test="banner" aria-label="State of the node">
    <p class="visually-hidden" role="status" aria-live="polite">${spoken(word, lost, reasons, state.alerts ?? [])}</p>
    <div class="banner-main">
      <div class="verdict">
        <p class="mode" data-test="mode" data-value=${lost ? 'unknown' : state.mode}><${Icon} name=${level} /><span>${word}</span></p>
        ${lost
          ? html`<p class="why">Connection lost. What you see is from ${clock(lastAt)}, ${ago(lastAt, now)}; then it was ${modeWords(state.mode)[1].toLowerCase()}.</p>`
          : reasons.length
            ? html`<ul class="why">${reasons.slice(0, SHOWN).map((text, i) => html`<li key=${i}><${Words} text=${text} /></li>`)}</ul>`
            : html`<p class="why">${MEANING[state.mode] ?? ''}</p>`}
        ${state.draining && html`<${Pill} level="warning">Draining: about to stop, takes no new requests<//>`}
      </div>
      <${Facts} state=${state} lost=${lost} />
    </div>
    ${lost
      ? html`<div class="alerts" data-test="alerts"><p class="no-alerts is-unknown"><${Icon} name="unknown" />Whether alerts fire is not known.</p></div>`
      : html`<${Alerts} alerts=${state.alerts ?? []} now=${now} />`}
  </section>`;
}

// What is read out when it changes: not times, which change every second.
const spoken = (word, lost, reasons, alerts) => (lost ? 'State unknown: connection lost.'
  : [`Mode: ${word}.`, ...reasons.slice(0, SHOWN), `${plural(alerts.length, 'alert')} firing.`, ...alerts.slice(0, SHOWN).map(({ severity, alert }) => `${severity}: ${alert}.`)]
    .map((text) => text.slice(0, 200)).join(' '));

function Facts({ state, lost }) {
  const { rules, store, cluster } = state;
  const shards = store?.shards ?? [];
  return html`<dl class=${lost ? 'facts stale' : 'facts'}>
    <div><dt>Store</dt><dd>${store?.kind === 'memory' ? 'Memory' : html`<${Name} text=${store?.kind} /> <small>${plural(shards.length, 'shard')}</small>`}</dd></div>
    <div><dt>${shards.length === 1 ? 'Breaker' : 'Breakers'}</dt><dd><${Breakers} shards=${shards} /></dd></div>
    <div><dt>Rules</dt><dd data-test="rules-version" data-value=${rules?.version}>v${exact(rules?.version)} <small>${plural(rules?.count, 'rule')}</small>
      ${rules?.quarantined > 0 && html` <${Pill} level="warning">${exact(rules.quarantined)} not in force<//>`}</dd></div>
    <div><dt>Others</dt><dd>${cluster ? html`<${Others} cluster=${cluster} />` : html`<span class="quiet">no cluster</span>`}</dd></div>
    <div><dt>Up</dt><dd title=${`version ${state.version}`}>${span(state.uptime_seconds)}</dd></div>
  </dl>`;
}

// The worst one speaks for all.
function Breakers({ shards }) {
  if (!shards.length) return html`<span class="quiet">none</span>`;
  const worst = worstBreaker(shards);
  const many = shards.filter((shard) => shard.breaker === worst).length;
  return html`<${Breaker} state=${worst} />${shards.length > 1 && html` <small>${many} of ${shards.length}</small>`}`;
}

function Others({ cluster: { alive, suspect, lost } }) {
  const all = alive + suspect + lost;
  if (alive === all) return html`${exact(alive)} <small>alive</small>`;
  return html`<${Pill} level="warning">${exact(alive)} of ${exact(all)} alive<//>`;
}

function Alerts({ alerts, now }) {
  return html`<div class="alerts" data-test="alerts" data-value=${alerts.length}>
    ${alerts.length === 0
      ? html`<p class="no-alerts is-ok"><${Icon} name="ok" />No alerts are firing.</p>`
      : html`<ul>${alerts.slice(0, SHOWN).map((alert) => html`<li key=${alert.alert} class="is-${severityLevel(alert.severity)}">
          <${Pill} level=${severityLevel(alert.severity)}>${alert.severity}<//>
          <span class="alert-name"><${Name} text=${alert.alert} /></span>
          <span class="alert-words"><${Words} text=${alert.summary} /></span>
          <time class="quiet" dateTime=${alert.since}>${ago(alert.since, now)}</time>
          <${Runbook} href=${alert.runbook} /></li>`)}</ul>
        ${alerts.length > SHOWN && html`<p class="quiet">and ${exact(alerts.length - SHOWN)} more in /v1/alerts</p>`}`}
  </div>`;
}
