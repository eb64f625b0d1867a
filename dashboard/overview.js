// One node at a glance, in the order in which one asks: is it well, how much, how fast, the store, who.

import { html, useState } from './vendor-preact.js';
import { Banner } from './banner.js';
import { Journal } from './journal.js';
import { Latency, Spread } from './latency.js';
import { Choice } from './parts.js';
import { ByHour, HotKeys, Mix, TopRefused } from './refusals.js';
import { Requests, Tiles } from './requests.js';
import { Store } from './store.js';

const SPANS = [[300, '5 min'], [900, '15 min']];

export function Overview({ live, now }) {
  const [span, setSpan] = useState(300);
  const { state, points, bounds, insight, journal, phase, lastAt } = live;
  const choice = html`<${Choice} label="Time shown" options=${SPANS} value=${span} onChange=${setSpan} />`;
  return html`<h1 class="visually-hidden">Overview</h1>
    <${Banner} state=${state} phase=${phase} lastAt=${lastAt} now=${now} />
    <div class=${phase === 'lost' ? 'grid stale' : 'grid'}>
      <${Tiles} points=${points} totals=${state.totals} />
      <${Requests} points=${points} totals=${state.totals} span=${span} extra=${choice} />
      <${Latency} points=${points} span=${span} />
      <${Spread} points=${points} bounds=${bounds} span=${span} />
      <${Store} state=${state} points=${points} span=${span} />
      <${Mix} state=${state} points=${points} />
      <div class="third pile"><${HotKeys} keys=${state.hot_keys ?? []} now=${now} /><${ByHour} insight=${insight} /></div>
      <${TopRefused} insight=${insight} />
      <${Journal} entries=${journal} now=${now} />
    </div>`;
}
