// One node at a glance, in the order in which one asks: is it well, how much, how fast, the store, who.

import { html, useState } from './vendor-preact.js';
import { Banner } from './banner.js';
import { Journal } from './journal.js';
import { Latency, Spread } from './latency.js';
import { Choice, Guard } from './parts.js';
import { ByHour, HotKeys, Mix, TopRefused } from './refusals.js';
import { Requests, Tiles } from './requests.js';
import { Store } from './store.js';
import { Upstreams } from './upstreams.js';

const SPANS = [[300, '5 min'], [900, '15 min']];

export function Overview({ live, now }) {
  const [span, setSpan] = useState(300);
  const { state, points, bounds, insight, journal, phase, lastAt } = live;
  const choice = html`<${Choice} label="Time shown" options=${SPANS} value=${span} onChange=${setSpan} />`;
  return html`<h1 class="visually-hidden">Overview</h1>
    <${Guard}><${Banner} state=${state} phase=${phase} lastAt=${lastAt} now=${now} /><//>
    <div class=${phase === 'lost' ? 'grid stale' : 'grid'}>
      <${Guard}><${Tiles} points=${points} totals=${state.totals} /><//>
      <${Guard} wide="third"><${Requests} points=${points} totals=${state.totals} span=${span} extra=${choice} /><//>
      <${Guard} wide="third"><${Latency} points=${points} span=${span} /><//>
      <${Guard} wide="third last"><${Spread} points=${points} bounds=${bounds} span=${span} /><//>
      ${state.upstreams?.length > 0 && html`<${Guard} wide="full"><${Upstreams} upstreams=${state.upstreams} /><//>`}
      <${Guard} wide="full"><${Store} state=${state} points=${points} span=${span} /><//>
      <div class="third pile"><${Guard}><${Mix} state=${state} points=${points} /><//><${Guard}><${ByHour} insight=${insight} /><//></div>
      <${Guard} wide="third"><${HotKeys} keys=${state.hot_keys ?? []} now=${now} /><//>
      <${Guard} wide="third last"><${TopRefused} insight=${insight} /><//>
      <${Guard} wide="log"><${Journal} entries=${journal} now=${now} /><//>
    </div>`;
}
