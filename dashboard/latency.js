// How long decisions take: percentiles, and where all of them lie.

import { html } from './vendor-preact.js';
import { Chart } from './charts.js';
import { HeatMap } from './heatmap.js';
import { highest, within } from './columns.js';
import { bucketName, duration } from './format.js';
import { Panel } from './parts.js';

const SERIES = [
  { label: 'p50', colour: '--green', dash: 0, value: (p) => p.latency?.p50 },
  { label: 'p99', colour: '--orange', dash: 1, value: (p) => p.latency?.p99 },
  { label: 'p999', colour: '--purple', dash: 2, value: (p) => p.latency?.p999 },
];

export function Latency({ points, span }) {
  const worst = highest(within(points, span), (p) => p.latency?.p99);
  const summary = worst === null ? 'Nothing was decided in this time.' : `Highest p99: ${duration(worst)}. Log scale.`;
  return html`<${Panel} id="latency" title="Latency" wide="third">
    <${Chart} title="Latency of decisions" points=${points} series=${SERIES} unit=${duration} log=${true} span=${span} summary=${summary} />
  <//>`;
}

export function Spread({ points, bounds, span }) {
  const sums = Array(bounds.length + 1).fill(0);
  within(points, span).forEach((p) => p.buckets?.forEach((n, i) => { sums[i] += n; }));
  const most = Math.max(...sums);
  const summary = most > 0 ? `Most take ${bucketName(bounds, sums.indexOf(most))}.` : 'Nothing was decided in this time.';
  return html`<${Panel} id="spread" title="Latency spread" wide="third last">
    <${HeatMap} title="Share of decisions by latency" points=${points} bounds=${bounds} span=${span} summary=${summary} />
  <//>`;
}
