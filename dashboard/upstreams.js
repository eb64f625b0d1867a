// The upstreams of a gateway that have a limit on requests in flight: how much of it is used, and what is shed.

import { html } from './vendor-preact.js';
import { duration, exact } from './format.js';
import { Meter, Name, Panel } from './parts.js';

const HEAD = ['Upstream', 'In flight', 'Limit', 'Base latency', 'Shed since the start, by tier'];

const shed = (tiers) => tiers.filter(({ total }) => total > 0).map(({ tier, total }) => `${tier} ${exact(total)}`).join(', ') || 'none';

export function Upstreams({ upstreams }) {
  return html`<${Panel} id="upstreams" title="Upstreams" wide="full" test="upstreams">
    <table class="data stack"><caption class="visually-hidden">Limits on requests in flight</caption>
    <thead><tr>${HEAD.map((words, i) => html`<th scope="col" class=${i > 0 && i < 4 ? 'num' : ''}>${words}</th>`)}</tr></thead>
    <tbody>${upstreams.map((upstream) => html`<tr key=${upstream.name} data-test="upstream">
      <th scope="row"><${Name} text=${upstream.name} /></th>
      <td class="num" data-label=${HEAD[1]}>${exact(upstream.in_flight)} <${Meter} label="Share of the limit" value=${upstream.in_flight / upstream.limit} critical=${Infinity} /></td>
      <td class="num" data-label=${HEAD[2]}>${exact(upstream.limit)}</td>
      <td class="num" data-label=${HEAD[3]}>${upstream.base_latency_seconds === null ? html`<span class="quiet" title="not known">–</span>` : duration(upstream.base_latency_seconds)}</td>
      <td data-label=${HEAD[4]}>${shed(upstream.shed)}</td>
    </tr>`)}</tbody></table>
  <//>`;
}
