// Lines over time: uPlot (a global, from a script of its own) with the page's colours, units and a legend that has values.

import { html, useContext, useEffect, useRef, useState } from './vendor-preact.js';
import { css, DASHES } from './colour.js';
import { columns, roundUp, within } from './columns.js';
import { clock } from './format.js';
import { Theme } from './theme.js';

export const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
export const axisFont = () => `${Math.round(0.72 * rem())}px system-ui, sans-serif`;

/** The room left of the plot, in rem: the same everywhere, so that charts above each other share their time. */
export const GUTTER = 3.9;

// Times at the very edges would be cut off or run into the other axis.
function times(u, splits) {
  const room = rem() * 1.4;
  const width = u.bbox.width / devicePixelRatio;
  return splits.map((s) => {
    const x = u.valToPos(s, 'x');
    return x < room || x > width - room * 0.7 ? '' : clock(s * 1000).slice(0, 5);
  });
}

function options({ series, unit, log, span, size, onCursor }) {
  const axis = { stroke: () => css('--ink-2'), font: axisFont(), ticks: { show: false }, grid: { stroke: () => css('--line'), width: 1 } };
  // Between powers of ten there would be more lines than one can read.
  const decades = (_, __, min, max) => { const all = []; for (let i = Math.round(Math.log10(min)); i <= Math.log10(max) + 1e-9; i++) all.push(10 ** i); return all; };
  const y = log
    ? { distr: 3, range: (_, min, max) => (max > 0 ? [10 ** Math.floor(Math.log10(min)), 10 ** Math.ceil(Math.log10(max) + 1e-9)] : [1e-6, 1e-2]) }
    : { range: (_, __, max) => [0, roundUp(max)] };
  return {
    ...size,
    padding: [rem() * 0.5, rem() * 0.5, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: 'time', scales: ['x', null] }, points: { size: 7 } },
    scales: { x: { time: true, range: (u) => { const end = u.data[0].at(-1) ?? Date.now() / 1000; return [end - span, end]; } }, y },
    axes: [
      { ...axis, values: times, incrs: [60, 120, 180, 300, 600], space: rem() * 3.5, size: rem() * 1.5, gap: rem() * 0.25 },
      { ...axis, values: (_, splits) => splits.map((s) => (s === null ? '' : unit(s))), size: rem() * GUTTER, gap: rem() * 0.35, space: rem() * 1.75, ...(log ? { splits: decades, filter: (_, splits) => splits } : {}) },
    ],
    series: [{}, ...series.map(({ label, colour, dash, fill }) => ({
      label, stroke: () => css(colour), width: rem() * 0.1, dash: DASHES[dash ?? 0].map((n) => (n * rem()) / 16), points: { show: false },
      fill: fill ? () => `${css(colour)}22` : undefined,
    }))],
    hooks: { setCursor: [(u) => onCursor(u.cursor.idx ?? null)] },
  };
}

const boxSize = (box) => ({ width: Math.max(40, box.clientWidth), height: Math.max(40, box.clientHeight) });

/** `series` are `{label, colour, dash, fill, value(point)}`; `unit` puts a number into words. */
export function Chart({ title, points, series, unit, log = false, span = 300, summary, children }) {
  const box = useRef(null);
  const plot = useRef(null);
  const theme = useContext(Theme);
  const [index, setIndex] = useState(null);
  const data = columns(within(points, span), series.map((s) => s.value));
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      plot.current = new globalThis.uPlot(options({ series, unit, log, span, size: boxSize(box.current), onCursor: setIndex }), latest.current, box.current);
    };
    make();
    let was = rem();
    const watch = new ResizeObserver(() => {
      // Fonts are set when a plot is made.
      if (rem() !== was) make();
      else plot.current.setSize(boxSize(box.current));
      was = rem();
    });
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme, span, log, series.map((s) => s.label + s.colour + s.dash).join('\n')]);
  useEffect(() => plot.current?.setData(data), [points, span]);

  const at = index !== null && index < data[0].length ? index : data[0].length - 1;
  return html`<figure class="chart" aria-label=${title}>
    <${Legend} series=${series} values=${series.map((_, i) => data[i + 1][at])} unit=${unit} />
    <div class="plot" role="img" aria-label=${`${title}. ${summary}`}><div class="plot-box" ref=${box}></div>${children}</div>
    <figcaption>${index !== null && data[0][at] ? `At ${clock(data[0][at] * 1000)}` : summary}</figcaption>
  </figure>`;
}

const Legend = ({ series, values, unit }) => html`<ul class="legend">${series.map((s, i) => html`<li key=${s.label}>
  <svg class="swatch" viewBox="0 0 24 8" aria-hidden="true"><line x1="0" y1="4" x2="24" y2="4" style=${{ stroke: `var(${s.colour})` }} stroke-dasharray=${DASHES[s.dash ?? 0].join(' ')} /></svg>
  <span class="legend-name" title=${s.label}>${s.label}</span><b>${unit(values[i])}</b></li>`)}</ul>`;
