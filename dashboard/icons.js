// Small pictures that go with words; screen readers get the words.

import { html } from './vendor-preact.js';

const PATHS = {
  ok: 'M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M8 12l3 3l5-6',
  warning: 'M12 4L2.5 20h19zM12 10v5M12 17.5v.5',
  critical: 'M8 3h8l5 5v8l-5 5H8l-5-5V8zM9 9l6 6M15 9l-6 6',
  info: 'M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M12 11v5M12 7.5v.5',
  unknown: 'M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M9.5 9.5a2.5 2.5 0 1 1 3.5 2.3q-1 .5-1 1.7M12 16.5v.5',
  half: 'M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M12 7v5l3 3',
  mode: 'M4 17a8 8 0 1 1 16 0M12 17l4-6',
  store: 'M4 6c0-4 16-4 16 0s-16 4-16 0v12c0 4 16 4 16 0V6M4 12c0 4 16 4 16 0',
  breaker: 'M13 3L5 14h6l-1 7l8-11h-6z',
  tiers: 'M4 20h16M6 16h12M8 12h8M10 8h4M12 4v4',
  rules: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7',
  alert: 'M6 17V11a6 6 0 0 1 12 0v6l2 1H4zM10 21h4',
  hot_key: 'M12 3c1 4 5 6 5 11a5 5 0 0 1-10 0c0-2 1-3 2-4c0 2 1 3 2 3c1-3-1-6 1-10',
  cluster: 'M12 5a2 2 0 1 0 .1 0M5 17a2 2 0 1 0 .1 0M19 17a2 2 0 1 0 .1 0M11 9l-5 8M13 9l5 8M7 19h10',
  node: 'M4 5h16v6H4zM4 13h16v6H4zM7 8h.5M7 16h.5',
  sun: 'M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5',
  moon: 'M20 14A8 8 0 1 1 10 4a7 7 0 0 0 10 10',
  gate: 'M6 4v16M12 4v16M18 4v16M3 15q4.500-4 9 0t9 0',
};

export function Icon({ name }) {
  const path = Object.hasOwn(PATHS, name) ? PATHS[name] : PATHS.info;
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${path} /></svg>`;
}
