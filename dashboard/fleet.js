// All nodes of the cluster, as this one sees them.

import { html, useEffect, useState } from './vendor-preact.js';
import { decided } from './columns.js';
import { count, duration, exact, percent, plural, rate, share, span } from './format.js';
import { Empty, Guard, modeWords, Name, Panel, Pill, Words } from './parts.js';
import { ByHour, HotKeys, TopRefused } from './refusals.js';

const EVERY = 2000;

// The next question waits for the answer to the last.
function useFleet(api) {
  const [fleet, setFleet] = useState({ body: null, problem: null });
  useEffect(() => {
    let stopped = false;
    let timer = 0;
    const ask = async () => {
      let problem = null;
      let body = null;
      try {
        const answer = await api.get('/v1/fleet');
        if (answer.status === 200 && answer.json) body = answer.json;
        else problem = answer.status === 404 ? 'This node has no view of the fleet.' : `The node answered ${answer.status}.`;
      } catch {
        problem = 'The node cannot be reached.';
      }
      if (stopped) return;
      setFleet((old) => ({ body: body ?? old.body, problem }));
      timer = setTimeout(ask, EVERY);
    };
    ask();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [api]);
  return fleet;
}

export function Fleet({ api, now }) {
  const { body, problem } = useFleet(api);
  return html`<h1 class="visually-hidden">Fleet</h1>
    ${problem && html`<p class="notice is-warning" role="status"><${Pill} level="warning">${problem}<//>${body && ' What you see is older.'}</p>`}
    ${body ? html`<${Sums} sum=${body.sum} /><${Nodes} nodes=${body.nodes} /><${Traffic} insight=${body.sum.insight} now=${now} />` : !problem && html`<p class="quiet">Asking the nodes…</p>`}`;
}

function Sums({ sum }) {
  const [level, word] = modeWords(sum.mode);
  const all = decided(sum.point);
  return html`<section class="tiles fleet-sums" aria-label="All nodes together">
    <div class="tile"><h2>Worst mode</h2><p class="big mode-word"><${Pill} level=${level} test="fleet-mode" value=${sum.mode}>${word}<//></p><p class="quiet">${exact(sum.answered)} of ${plural(sum.asked, 'node')} answered</p></div>
    <div class="tile"><h2>Decisions</h2><p class="big"><span data-test="fleet-decisions" data-value=${all}>${count(all)}<small>/s</small></span></p><p class="quiet">${exact(sum.totals.allowed)} allowed</p></div>
    <div class="tile"><h2>Refused</h2><p class="big"><span>${count(sum.point.decisions.refused)}<small>/s</small></span>${all > 0 && html`<span class="beside">${percent(share(sum.point.decisions.refused, all))}</span>`}</p><p class="quiet">${exact(sum.totals.refused)} in all</p></div>
    <div class="tile"><h2>p99</h2><p class="big">${duration(sum.point.latency?.p99)}</p><p class="quiet">p50 ${duration(sum.point.latency?.p50)}</p></div>
  </section>`;
}

// Whom a balancer spreads over all nodes, none of them sees whole.
const Traffic = ({ insight, now }) => html`<div class="grid fleet-traffic" data-test="fleet-traffic">
  <${Guard} wide="third"><${HotKeys} keys=${insight?.hot_keys ?? []} now=${now} /><//>
  <${Guard} wide="third"><${ByHour} insight=${insight} wide="third" /><//>
  <${Guard} wide="third last"><${TopRefused} insight=${insight} /><//>
</div>`;

const HEAD = ['Node', 'Mode', 'Decisions', 'Refused', 'p99', 'Rules', 'Up', 'Problem'];

function Nodes({ nodes }) {
  const versions = nodes.map((node) => node.tick?.state.rules?.version).filter((v) => v !== undefined);
  const newest = Math.max(...versions);
  return html`<${Panel} id="nodes" title=${nodes.length > 1 ? plural(nodes.length, 'node') : 'This node'} wide="full">
    <table class="data stack"><caption class="visually-hidden">Nodes of the cluster</caption>
      <thead><tr>${HEAD.map((words, i) => html`<th scope="col" class=${i === 7 ? 'wide-cell' : i > 1 ? 'num' : ''}>${words}</th>`)}</tr></thead>
      <tbody>${nodes.map((node, i) => html`<${Row} key=${node.name ?? i} node=${node} newest=${newest} />`)}</tbody>
    </table>
    ${nodes.length < 2 && html`<${Empty}><p>This node knows no others. To form a cluster, start each node with</p>
      <code>tidegate serve --cluster ADDRESS --peers HOST:PORT</code><p>so that they share a store, tell each other of failures, and show up here.</p><//>`}
  <//>`;
}

function Row({ node, newest }) {
  const state = node.tick?.state;
  const point = node.tick?.point;
  const [level, word] = state ? modeWords(state.mode) : node.state === 'alive' ? ['unknown', 'No answer'] : ['critical', node.state === 'lost' ? 'Lost' : 'Suspected'];
  const behind = state && state.rules.version !== newest;
  const problem = node.problem ?? state?.reasons?.join('; ');
  return html`<tr data-test="fleet-row" data-value=${node.name}>
    <th scope="row"><div class="bar-name"><${Name} text=${node.name} none="(no name)" />${node.me && html`<small class="tag">this page</small>`}</div>${node.address && html`<small class="quiet"><${Name} text=${node.address} /></small>`}</th>
    <td data-label=${HEAD[1]}><${Pill} level=${level}>${word}<//></td>
    <td class="num" data-label=${HEAD[2]}>${rate(point && decided(point))}</td>
    <td class="num" data-label=${HEAD[3]}>${rate(point?.decisions.refused)}</td>
    <td class="num" data-label=${HEAD[4]}>${duration(point?.latency?.p99)}</td>
    <td class="num" data-label=${HEAD[5]}>${!state ? '–' : behind ? html`<${Pill} level="warning">v${exact(state.rules.version)} differs<//>` : `v${exact(state.rules.version)}`}</td>
    <td class="num" data-label=${HEAD[6]}>${span(state?.uptime_seconds)}</td>
    <td class="wide-cell" data-label=${HEAD[7]}>${problem ? html`<${Words} text=${problem} />` : html`<span class="quiet">none</span>`}</td>
  </tr>`;
}
