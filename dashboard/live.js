// What the node tells as it happens: one long answer of /v1/events, asked for again whenever it ends.

import { sseParser } from './sse.js';

const MOST_POINTS = 900;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
// A node that is well says something every second, and at the very least every 15.
const SILENCE = 20_000;

export const nothingYet = {
  phase: 'connecting', problem: null, retryAt: null, lastAt: null,
  bounds: [], points: [], state: null, insight: null, journal: null,
};

/** `live` after a message. Unknown messages change nothing. */
export function reduce(live, event, body) {
  switch (event) {
    case 'history':
      return { ...live, bounds: body.bounds ?? [], points: join(live.points, body.points ?? []) };
    case 'tick':
      return { ...live, state: body.state, points: join(live.points, [body.point]) };
    case 'insight':
      return { ...live, insight: body };
    case 'journal':
      return { ...live, journal: body.entries ?? [] };
    default:
      return live;
  }
}

// After a reconnect the history repeats what is known, and a restarted node knows less than the page: newer wins, time only grows.
// A node in its first second has a point of no time.
function join(old, some) {
  const fresh = some.filter((point) => point?.at > 0);
  if (!fresh.length) return old;
  return [...old.filter((point) => point.at < fresh[0].at), ...fresh].slice(-MOST_POINTS);
}

/** How long to wait before attempt number `attempt` (from 0), in milliseconds. */
export const waitBefore = (attempt) => Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** Math.min(attempt, 20));

/** Reads until `stop` is called. `open(signal)` asks for the events; `onChange(live)` hears of everything, `onDenied` of a 401. */
export function startLive({ open, onChange, onDenied }) {
  let live = nothingYet;
  let attempt = 0;
  let stopped = false;
  let timer = 0;
  let controller = null;
  const tell = (change) => {
    live = { ...live, ...change };
    if (!stopped) onChange(live);
  };

  async function once() {
    controller = new AbortController();
    const { signal } = controller;
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => controller.abort(), SILENCE);
    };
    heard();
    try {
      const response = await open(signal);
      if (response.status === 401) {
        stop();
        return onDenied();
      }
      if (!response.ok) {
        const message = await response.json().then((body) => body?.message, () => null);
        throw new Error(message ?? `it answered ${response.status}`);
      }
      const push = sseParser((event, data) => {
        attempt = 0;
        live = reduce(live, event, JSON.parse(data));
        tell({ phase: 'live', problem: null, retryAt: null, lastAt: Date.now() });
      });
      for (const reader = response.body.getReader(); ;) {
        const { done, value } = await reader.read();
        if (done) throw new Error('the node ended the connection');
        heard();
        push(value);
      }
    } catch (error) {
      const problem = signal.aborted ? 'the node is silent' : String(error.message ?? error);
      controller.abort();
      again(problem);
    } finally {
      clearTimeout(silence);
    }
  }

  function again(problem) {
    if (stopped) return;
    const wait = waitBefore(attempt++);
    tell({ phase: 'lost', problem, retryAt: Date.now() + wait });
    timer = setTimeout(once, wait);
  }

  function stop() {
    stopped = true;
    clearTimeout(timer);
    controller?.abort();
  }

  once();
  return stop;
}
