// The page around the views: header, navigation by the address after `#`, the connection, and the token.

import { html, render, useEffect, useState } from './vendor-preact.js';
import { api, ask, token } from './api.js';
import { Fleet } from './fleet.js';
import { Icon } from './icons.js';
import { nothingYet, startLive } from './live.js';
import { Overview } from './overview.js';
import { Guard, Name } from './parts.js';
import { Rules } from './rules.js';
import { RunbookPage, runbookIn } from './runbook.js';
import { Theme, useThemeChoice } from './theme.js';
import { TokenForm } from './token.js';

const VIEWS = [['#/', 'Overview', 'overview'], ['#/rules', 'Rules', 'rules'], ['#/fleet', 'Fleet', 'fleet']];
const view = () => VIEWS.find(([hash]) => hash !== '#/' && location.hash.startsWith(hash)) ?? VIEWS[0];

function useView() {
  const [now, set] = useState(() => [...view()]);
  useEffect(() => {
    // Another array each time, since there is more after `#` than the view.
    const follow = () => set([...view()]);
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return now;
}

// Times like "12 s ago" go on even when nothing comes in that would draw the page anew.
function useNow(silent) {
  const [, set] = useState(0);
  useEffect(() => {
    if (!silent) return undefined;
    const timer = setInterval(() => set((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [silent]);
  return Date.now();
}

function useNode() {
  const [live, setLive] = useState(nothingYet);
  const [denied, setDenied] = useState(false);
  const [who, setWho] = useState(null);
  const [session, setSession] = useState(0);
  useEffect(() => api.onDenied(() => setDenied(true)), []);
  useEffect(() => {
    if (denied) return undefined;
    const open = (signal) => ask('/v1/events', { signal, headers: { Accept: 'text/event-stream' } });
    return startLive({ open, onChange: setLive, onDenied: () => setDenied(true) });
  }, [session, denied]);
  const connected = live.phase === 'live';
  useEffect(() => {
    // Without an answer one may look and not touch, until the next connection.
    if (connected) api.get('/v1/whoami').then((answer) => answer.status === 200 && setWho(answer.json), () => {});
  }, [session, connected]);
  const enter = (value) => {
    token.set(value);
    setLive(nothingYet);
    setWho(null);
    setDenied(false);
    setSession((n) => n + 1);
  };
  return { live, denied, who, enter };
}

const PHASES = {
  connecting: ['info', 'half', 'Connecting…'],
  live: ['ok', 'ok', 'Live'],
  lost: ['critical', 'critical', 'Connection lost'],
  denied: ['warning', 'warning', 'Token needed'],
};

function Connection({ live, denied, now }) {
  const phase = denied ? 'denied' : live.phase;
  const [level, icon, words] = PHASES[phase];
  const wait = Math.max(0, Math.ceil(((live.retryAt ?? now) - now) / 1000));
  return html`<span class="connection is-${level}" data-test="connection" data-value=${phase} title=${live.problem}>
    <${Icon} name=${icon} /><span role="status">${words}</span>${phase === 'lost' && html`<span class="retry" aria-hidden="true">${wait > 0 ? `· again in ${wait} s` : '· trying…'}</span>`}</span>`;
}

function Header({ here, live, denied, now, theme, toggle, who, leave }) {
  const other = theme === 'dark' ? 'light' : 'dark';
  return html`<header class="top">
    <a class="brand" href="#/"><${Icon} name="gate" /><span>Tidegate</span></a>
    <span class="node-name">${live.state?.name && html`<${Name} text=${live.state.name} />`}</span>
    <nav aria-label="Pages">${VIEWS.map(([hash, words, id]) => html`<a key=${id} href=${hash} data-test=${`nav-${id}`} aria-current=${here[2] === id ? 'page' : undefined}>${words}</a>`)}</nav>
    <${Connection} live=${live} denied=${denied} now=${now} />
    ${who?.tokens && token.get() && html`<button type="button" class="plain" onClick=${leave}>Forget token</button>`}
    <button type="button" class="plain" data-test="theme-toggle" aria-label=${`Change to ${other} colours`} title=${`Change to ${other} colours`} onClick=${toggle}><${Icon} name=${theme === 'dark' ? 'sun' : 'moon'} /></button>
  </header>`;
}

function Waiting({ live }) {
  if (live.phase !== 'lost') return html`<p class="waiting quiet" role="status">Connecting to the node…</p>`;
  return html`<div class="panel waiting" role="status"><h1>The node does not answer</h1><p class="quiet">${live.problem}. This page goes on trying.</p></div>`;
}

function App() {
  const [theme, toggle] = useThemeChoice();
  const here = useView();
  const { live, denied, who, enter } = useNode();
  const now = useNow(live.phase !== 'live');
  const [, , id] = here;
  const body = () => {
    if (denied) return html`<${TokenForm} again=${token.get() !== ''} onToken=${enter} />`;
    const runbook = runbookIn(location.hash);
    if (runbook !== null) return html`<${RunbookPage} key=${runbook} api=${api} name=${runbook} />`;
    if (id === 'fleet') return html`<${Fleet} api=${api} now=${now} />`;
    if (!live.state) return html`<${Waiting} live=${live} />`;
    if (id === 'rules') return html`<${Rules} api=${api} state=${live.state} byRule=${live.state.by_rule ?? []} role=${who?.role ?? 'read'} />`;
    return html`<${Overview} live=${live} now=${now} />`;
  };
  useEffect(() => {
    const alerts = live.state?.alerts?.length ?? 0;
    document.title = `${alerts ? `(${alerts}) ` : ''}${live.state?.name ?? 'Tidegate'} – ${here[1]}`;
  });
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main').focus();
  };
  return html`<${Theme.Provider} value=${theme}>
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Header} here=${here} live=${live} denied=${denied} now=${now} theme=${theme} toggle=${toggle} who=${who} leave=${() => enter('')} />
    <main id="main" tabindex="-1"><${Guard} key=${id}>${body()}<//></main>
    <footer class="foot quiet">${live.state && `Tidegate ${live.state.version}`}</footer>
  <//>`;
}

const root = document.getElementById('app');
root.textContent = '';
render(html`<${App} />`, root);
