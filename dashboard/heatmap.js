// Where decisions' latencies lie, second by second: time to the right, latency upwards, colour by share.

import { html, useContext, useEffect, useRef, useState } from './vendor-preact.js';
import { css, mix, RAMPS, strength } from './colour.js';
import { axisFont, GUTTER, rem } from './charts.js';
import { bucketName, clock, duration, percent } from './format.js';
import { Theme } from './theme.js';
import { within } from './columns.js';

// Thousands of cells are drawn each second, in few colours.
const SHADES = 48;
const palette = (theme) => Array.from({ length: SHADES + 1 }, (_, i) => mix(RAMPS[theme], i / SHADES));

const sum = (list) => list.reduce((a, b) => a + b, 0);

// Where things are, in CSS pixels, for drawing and for finding what the pointer is over.
function layout(canvas, rows, end, span) {
  const unit = rem();
  const left = unit * GUTTER;
  const top = unit * 0.5;
  const width = canvas.clientWidth - left - unit * 0.5;
  const height = canvas.clientHeight - top - unit * 1.5;
  const x = (at) => left + width * (1 - (end - at) / (span * 1000));
  const y = (row) => top + height * (1 - row / rows);
  return { left, top, width, height, x, y, cell: { width: width / span, height: height / rows } };
}

function draw(canvas, { points, bounds, span, theme }) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(canvas.clientHeight * scale);
  const pen = canvas.getContext('2d');
  pen.scale(scale, scale);
  const rows = bounds.length + 1;
  const end = points.at(-1)?.at ?? Date.now();
  const at = layout(canvas, rows, end, span);
  const shades = palette(theme);
  for (const point of points) {
    const total = sum(point.buckets);
    point.buckets.slice(0, rows).forEach((n, row) => {
      const how = strength(n / total);
      if (how === null) return;
      pen.fillStyle = shades[Math.round(how * SHADES)];
      const x = Math.max(at.left, at.x(point.at) - at.cell.width);
      pen.fillRect(x, at.y(row + 1), Math.min(at.cell.width + 0.6, at.left + at.width - x), at.cell.height - 0.5);
    });
  }
  axes(pen, at, bounds, end, span);
}

function axes(pen, at, bounds, end, span) {
  pen.font = axisFont();
  pen.fillStyle = css('--ink-2');
  pen.strokeStyle = css('--line');
  pen.lineWidth = 1;
  pen.textBaseline = 'middle';
  pen.textAlign = 'right';
  bounds.forEach((bound, i) => {
    // Powers of ten are enough to read the rest by.
    if (Math.abs(Math.log10(bound) - Math.round(Math.log10(bound))) > 1e-6) return;
    const y = Math.round(at.y(i + 1)) + 0.5;
    pen.beginPath();
    pen.moveTo(at.left, y);
    pen.lineTo(at.left + at.width, y);
    pen.stroke();
    pen.fillText(duration(bound), at.left - rem() * 0.35, y);
  });
  pen.textAlign = 'center';
  pen.textBaseline = 'bottom';
  const step = [60, 120, 180, 300].find((s) => (at.width * s) / span > rem() * 3.5) ?? 300;
  for (let s = Math.ceil((end / 1000 - span) / step) * step; s <= end / 1000; s += step) {
    const x = at.x(s * 1000);
    if (x > at.left + rem()) pen.fillText(clock(s * 1000).slice(0, 5), Math.min(x, at.left + at.width - rem()), at.top + at.height + rem() * 1.4);
  }
}

// What is under the pointer, in words.
function under(event, points, bounds, span) {
  const canvas = event.currentTarget;
  const rows = bounds.length + 1;
  const end = points.at(-1)?.at ?? 0;
  const at = layout(canvas, rows, end, span);
  const time = end - (1 - (event.offsetX - at.left) / at.width) * span * 1000;
  const row = Math.floor(rows * (1 - (event.offsetY - at.top) / at.height));
  const point = points.find((p) => p.at >= time && p.at - time <= 1000);
  if (!point || row < 0 || row >= rows) return null;
  return `${clock(point.at)}, ${bucketName(bounds, row)}: ${percent(point.buckets[row] / sum(point.buckets) || 0)}`;
}

const SCALE = [0.0001, 0.001, 0.01, 0.1, 1];

export function HeatMap({ title, points: all, bounds, span, summary }) {
  const canvas = useRef(null);
  const theme = useContext(Theme);
  const [hint, setHint] = useState(null);
  const points = within(all, span).filter((point) => Array.isArray(point.buckets));
  const again = useRef(null);
  again.current = () => canvas.current && draw(canvas.current, { points, bounds, span, theme });
  useEffect(() => again.current(), [all, bounds, span, theme]);
  useEffect(() => {
    const watch = new ResizeObserver(() => again.current());
    watch.observe(canvas.current);
    return () => watch.disconnect();
  }, []);
  return html`<figure class="chart" aria-label=${title}>
    <ul class="legend ramp"><li class="ramp-title">Share of each second's decisions</li>${SCALE.map((share) => html`<li key=${share}>
      <span class="ramp-cell" style=${{ background: mix(RAMPS[theme], strength(share)) }} aria-hidden="true"></span>${percent(share)}</li>`)}</ul>
    <div class="plot"><canvas ref=${canvas} role="img" aria-label=${`${title}. ${summary}`}
      onPointerMove=${(event) => setHint(under(event, points, bounds, span))} onPointerLeave=${() => setHint(null)}></canvas></div>
    <figcaption>${hint ?? summary}</figcaption>
  </figure>`;
}
