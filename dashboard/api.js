// Requests to the node this page came from, with the token of whoever looks, if they gave one.

const KEY = 'tidegate-token';
const listeners = new Set();

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? '',
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

// Relative to the page, so that it also works behind a proxy that puts a path in front.
const url = (path) => new URL(path.replace(/^\/+/, ''), document.baseURI);

/** As `fetch`, with the token. */
export function ask(path, { headers = {}, ...options } = {}) {
  const mine = token.get();
  const all = mine ? { ...headers, Authorization: `Bearer ${mine}` } : headers;
  return fetch(url(path), { cache: 'no-store', ...options, headers: all });
}

async function send(method, path, body, headers = {}) {
  const isText = typeof body === 'string';
  const all = body === undefined || isText ? headers : { 'Content-Type': 'application/json', ...headers };
  const response = await ask(path, { method, headers: all, body: body === undefined || isText ? body : JSON.stringify(body) });
  const text = await response.text();
  if (response.status === 401) listeners.forEach((listener) => listener());
  let json = null;
  try {
    json = JSON.parse(text);
  } catch {
    // Not everything is JSON: whoever asked has the text.
  }
  return { status: response.status, headers: response.headers, json, text };
}

/** Answers have `status`, `headers`, `json` (null if it is none) and `text`; only a broken network throws. */
export const api = {
  get: (path, headers) => send('GET', path, undefined, headers),
  send,
  /** Calls `listener` at each 401; returns how to stop that. */
  onDenied(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};
