// The store that nodes share: what each part of it is asked, how it answers, and how it is.

import { html, useState } from './vendor-preact.js';
import { Chart } from './charts.js';
import { LINES } from './colour.js';
import { highest, mean, within } from './columns.js';
import { bytes, duration, plural, rate } from './format.js';
import { Breaker, Empty, Meter, Name, Panel, Pill, Words } from './parts.js';
import { inOrder, shown } from './shards.js';

const MOST_LINES = LINES.length;
const MOST_ROWS = 12;
const find = (point, name) => point.shards?.find((shard) => shard.name === name);
const lines = (shards, key) => inOrder(shards, MOST_LINES).slice(0, MOST_LINES).map(({ name }, i) => (
  { label: name, colour: LINES[i], dash: i, value: (point) => find(point, name)?.[key] }));

export function Store({ state, points, span }) {
  const { store, keys } = state;
  const shards = store?.shards ?? [];
  const extra = store?.unsettled > 0 && html`<${Pill} level="warning">${plural(store.unsettled, 'key')} to be told to the store<//>`;
  return html`<${Panel} id="store" title="Store" wide="full" test="shards" extra=${extra}>
    ${shards.length ? html`<${Charts} shards=${shards} points=${points} span=${span} /><${Health} shards=${shards} points=${points} />` : html`<${Memory} keys=${keys} />`}
  <//>`;
}

const Memory = ({ keys }) => html`<${Empty}><p>This node counts in its own memory: ${plural(keys, 'key')}. Other nodes do not know of them.</p>
  <p>To share limits between nodes, start with <code>--store redis://HOST:6379</code></p><//>`;

function Charts({ shards, points, span }) {
  const seen = within(points, span);
  const top = (key) => highest(seen.flatMap((p) => p.shards ?? []), (shard) => shard[key]);
  const more = shards.length > MOST_LINES ? ` ${MOST_LINES} of ${shards.length} shards are drawn.` : '';
  const errors = top('errors');
  return html`<div class="trio">
    <div><h3>Operations</h3><${Chart} title="Operations per second by shard" points=${points} series=${lines(shards, 'operations')} unit=${rate} span=${span} summary=${`Busiest shard: ${rate(top('operations'))}.${more}`} /></div>
    <div><h3>Errors</h3><${Chart} title="Errors per second by shard" points=${points} series=${lines(shards, 'errors')} unit=${rate} span=${span} summary=${errors === null ? 'Not known.' : errors > 0 ? `At most ${rate(errors)} on one shard.` : 'No errors.'} /></div>
    <div><h3>p99 of calls</h3><${Chart} title="99th percentile of calls by shard" points=${points} series=${lines(shards, 'p99')} unit=${duration} log=${true} span=${span} summary=${`Slowest shard: ${duration(top('p99'))}. Log scale.`} /></div>
  </div>`;
}

const HEAD = ['Shard', 'Breaker', 'Operations', 'Errors', 'p99', 'CPU', 'Memory', 'Clients', 'Replica lag'];

function Health({ shards, points }) {
  const [whole, setWhole] = useState(false);
  const rows = whole ? shards : shown(shards, MOST_ROWS);
  const recent = within(points, 5);
  const now = (name, key) => mean(recent, (p) => find(p, name)?.[key]);
  return html`<table class="data stack"><caption class="visually-hidden">Health of the store's shards</caption>
    <thead><tr>${HEAD.map((words, i) => html`<th scope="col" class=${i > 1 ? 'num' : ''}>${words}</th>`)}</tr></thead>
    <tbody>${rows.map((shard) => html`<tr key=${shard.name} data-test="shard">
      <th scope="row"><${Name} text=${shard.name} />${shard.problem && html`<span class="problem"><${Words} text=${shard.problem} /></span>`}</th>
      <td data-label=${HEAD[1]}><${Breaker} state=${shard.breaker} /></td>
      <td class="num" data-label=${HEAD[2]}>${rate(now(shard.name, 'operations'))}</td>
      <td class="num" data-label=${HEAD[3]}>${rate(now(shard.name, 'errors'))}</td>
      <td class="num" data-label=${HEAD[4]}>${duration(highest(recent, (p) => find(p, shard.name)?.p99))}</td>
      <td class="num" data-label=${HEAD[5]}><${Meter} label="CPU" value=${shard.cpu} /></td>
      <td class="num" data-label=${HEAD[6]}><${MemoryUse} shard=${shard} /></td>
      <td class="num" data-label=${HEAD[7]}><${Meter} label="Clients" value=${shard.connections} high=${0.95} critical=${Infinity} /></td>
      <td class="num" data-label=${HEAD[8]}><${Lag} seconds=${shard.replication_lag_seconds} /></td>
    </tr>`)}</tbody></table>
    ${shards.length > MOST_ROWS && html`<p class="more"><button type="button" data-test="all-shards" aria-expanded=${whole} onClick=${() => setWhole(!whole)}>${whole ? 'Show fewer' : `Show all ${shards.length} shards`}</button></p>`}`;
}

// Without a limit there is no share: what it uses is all that can be said.
const MemoryUse = ({ shard: { memory, memory_bytes: used } }) => (typeof memory !== 'number' && typeof used === 'number'
  ? html`<span title="has no limit (maxmemory)">${bytes(used)}</span>`
  : html`<span title=${bytes(used)}><${Meter} label="Memory" value=${memory} /></span>`);

const Lag = ({ seconds }) => {
  if (seconds === null || seconds === undefined) return html`<span class="quiet" title="not known">–</span>`;
  return seconds > 0.1 ? html`<${Pill} level="warning">${duration(seconds)}<//>` : duration(seconds);
};
