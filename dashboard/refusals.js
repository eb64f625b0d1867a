// Who and what is refused, by which rule, and which keys are asked for most.

import { html, useState } from './vendor-preact.js';
import { byTier, within } from './columns.js';
import { age, count, exact, percent, plural, rate, share } from './format.js';
import { Bars, Choice, Empty, Panel, Pill } from './parts.js';

const TOP = 6;

function shares(items, name, none) {
  return items.filter((item) => item.refused > 0).slice(0, TOP).map((item) => ({
    name: item[name], none, size: item.refused,
    cells: [rate(item.refused), percent(share(item.refused, item.allowed + item.refused))],
  }));
}

export function Mix({ state, points }) {
  const recent = within(points, 5);
  const rules = [...(state.by_rule ?? [])].sort((a, b) => b.refused - a.refused);
  return html`<${Panel} id="mix" title="Refusals by rule and tier">
    <${Shares} caption="Refusals by rule" of="Rule" rows=${shares(rules, 'rule', 'no rule')} test="by-rule" none="No rule refuses anything now." />
    <${Shares} caption="Refusals by tier" of="Tier" rows=${shares(byTier(recent), 'tier', 'no tier')} test="by-tier" none="No tier is refused anything now." />
  <//>`;
}

const Shares = ({ caption, of, rows, test, none }) => rows.length
  ? html`<${Bars} caption=${caption} head=${[of, 'Refused', 'Of requests']} rows=${rows} test=${test} />`
  : html`<p class="quiet nothing" data-test=${test}>${none}</p>`;

export function HotKeys({ keys, now }) {
  const rows = keys.slice(0, 10).map((key) => ({
    name: key.identity, size: key.rate_per_second,
    beside: html`<small class="quiet">${key.rule}</small>`,
    cells: [rate(key.rate_per_second), key.hot ? html`<${Hot} since=${key.since} now=${now} />` : html`<span class="quiet">–</span>`],
  }));
  return html`<${Panel} id="hot" title="Busiest keys" wide="third" test="hot-keys">
    ${rows.length
      ? html`<${Bars} caption="Keys with most requests" head=${['Key', 'Requests', 'Hot for']} rows=${rows} colour="allowed" rowTest="hot-key" />`
      : html`<${Empty}><p>No key was asked for more than once in the last moments.</p><p>A key is hot from <code>--hot-key-rate</code> requests a second on.</p><//>`}
  <//>`;
}

const Hot = ({ since, now }) => html`<${Pill} level="warning" icon="hot_key" test="hot">${since ? html`<span class="visually-hidden">hot for </span>${age(since, now)}` : 'hot'}<//>`;

const KINDS = [['users', 'Users'], ['addresses', 'Addresses'], ['tenants', 'Tenants'], ['descriptors', 'Descriptors'], ['rules', 'Rules'], ['tiers', 'Tiers'], ['countries', 'Countries']];
const PERIODS = [['5m', '5 min'], ['1h', '1 h'], ['24h', '24 h']];

export function TopRefused({ insight }) {
  const [chosen, setKind] = useState(null);
  const [period, setPeriod] = useState('5m');
  const refused = insight?.refusals?.[period] ?? {};
  // Behind a proxy that describes requests there are no users; elsewhere there are no descriptors.
  const described = chosen === 'descriptors' || PERIODS.some(([of]) => insight?.refusals?.[of]?.descriptors?.length);
  const kinds = KINDS.filter(([of]) => of !== 'descriptors' || described);
  const kind = chosen ?? (!refused.users?.length && refused.descriptors?.length ? 'descriptors' : 'users');
  const list = refused[kind];
  return html`<${Panel} id="top" title="Most refused" wide="third last" extra=${html`<${Choice} label="Period" options=${PERIODS} value=${period} onChange=${setPeriod} />`}>
    <${Choice} label="Kind" options=${kinds} value=${kind} onChange=${setKind} />
    <div class="top-list" data-test=${`refused-${kind}`}><${TopList} kind=${kind} list=${list} /></div>
    ${insight?.not_counted > 0 && html`<p class="quiet"><small>${exact(insight.not_counted)} more were not counted by name.</small></p>`}
  <//>`;
}

function TopList({ kind, list }) {
  if (kind === 'countries' && !list) return html`<${Empty}><p>Countries are not known.</p><p>To see them, start with <code>--geoip FILE</code> (MaxMind's format).</p><//>`;
  if (!list?.length) return html`<p class="quiet nothing">Nobody was refused in this time.</p>`;
  const rows = list.slice(0, 10).map(({ name, count: n, error }) => ({
    name: kind === 'countries' ? country(name) : name, size: n, cells: [count(n)],
    title: error > 0 ? `between ${exact(n - error)} and ${exact(n)}` : exact(n),
  }));
  return html`<${Bars} caption=${`Most refused ${kind}`} head=${['Name', 'Refusals']} rows=${rows} rowTest="refused-row" />`;
}

function country(code) {
  try {
    const name = new Intl.DisplayNames(['en'], { type: 'region' }).of(code);
    return name === code ? code : `${code} · ${name}`;
  } catch {
    return code;
  }
}

export const ByHour = ({ insight, wide }) => html`<${Panel} id="hours" title="Refusals by hour" wide=${wide} extra=${html`<small class="quiet">last 24 h, UTC</small>`} test="by-hour">
  <${Hours} hours=${insight?.refusals?.by_hour ?? []} />
<//>`;

function Hours({ hours }) {
  const most = Math.max(...hours, 0);
  if (most === 0) return html`<p class="quiet nothing">No refusals in the last 24 hours.</p>`;
  const now = new Date().getUTCHours();
  const peak = hours.indexOf(most);
  const summary = `Most from ${peak}:00 to ${peak + 1}:00: ${plural(most, 'refusal')}.`;
  return html`<figure class="by-hour"><div class="hours" role="img" aria-label=${`Refusals by hour of the day, UTC. ${summary}`}>
    ${hours.map((n, hour) => html`<div key=${hour} class=${hour === now ? 'hour now' : 'hour'} title=${`${hour}:00 – ${hour + 1}:00 UTC: ${exact(n)}${hour === now ? ' (now)' : ''}`}>
      <span style=${{ height: `${(100 * n) / most}%` }}></span><small>${hour % 6 === 0 ? hour : ''}</small></div>`)}
  </div><figcaption>${summary}</figcaption></figure>`;
}
