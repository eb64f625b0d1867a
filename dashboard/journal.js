// What happened lately, newest first.

import { html } from './vendor-preact.js';
import { ago, clock } from './format.js';
import { Icon } from './icons.js';
import { Empty, Panel, Runbook, severityLevel, Words } from './parts.js';

export function Journal({ entries, now }) {
  return html`<${Panel} id="journal" title="Journal" wide="log" test="journal">
    ${entries?.length
      ? html`<ol class="journal" tabindex="0" aria-label="Recent events">${entries.map((entry, i) => html`<${Entry} key=${`${entry.at} ${i}`} entry=${entry} now=${now} />`)}</ol>`
      : html`<${Empty}><p>Nothing happened yet. Changes of mode, store, rules and alerts show up here.</p><//>`}
  <//>`;
}

const Entry = ({ entry, now }) => html`<li class="is-${severityLevel(entry.severity)}" data-test="journal-entry">
  <span class="journal-icon"><${Icon} name=${entry.kind} /></span>
  <div class="journal-text">
    <p><span class="severity">${entry.severity !== 'info' && html`<${Icon} name=${severityLevel(entry.severity)} /><span class="visually-hidden">${severityLevel(entry.severity)}: </span>`}<b><${Words} text=${entry.title} /></b></span>
      <${Runbook} href=${entry.runbook} /></p>
    ${entry.detail && html`<p class="quiet"><${Words} text=${entry.detail} /></p>`}
  </div>
  <time class="quiet" dateTime=${entry.at} title=${entry.at}>${clock(entry.at)} <span>${ago(entry.at, now)}</span></time>
</li>`;
