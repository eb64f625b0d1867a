// What to do about an alert, from the runbooks that come with the node: no other server has to be there to read them.

import { html, useEffect, useState } from './vendor-preact.js';
import { blocks, inline, section } from './markdown.js';
import { Empty, Panel } from './parts.js';

const PLACE = '#/runbook/';

/** Where the runbook called `name` is on this page. */
export const runbookPlace = (name) => PLACE + encodeURIComponent(name);

/** The runbook that the address names; null if it names none. */
export function runbookIn(hash) {
  if (!hash.startsWith(PLACE)) return null;
  try {
    return decodeURIComponent(hash.slice(PLACE.length));
  } catch {
    return '';
  }
}

function Piece({ kind, text, to }) {
  if (kind === 'code') return html`<code>${text}</code>`;
  if (kind === 'strong') return html`<strong>${text}</strong>`;
  if (kind === 'em') return html`<em>${text}</em>`;
  // Other documents are not on the node.
  if (kind === 'link' && to.startsWith('#')) return html`<a href=${runbookPlace(to.slice(1))}>${text}</a>`;
  return text;
}

const Line = ({ line }) => inline(line).map((piece, index) => html`<${Piece} key=${index} ...${piece} />`);

export function RunbookPage({ api, name }) {
  const [text, setText] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const take = (answer) => (answer.status === 200 ? setText(answer.text) : setProblem(`The node answered ${answer.status}.`));
    api.get('/dashboard/runbooks.md').then(take, (error) => setProblem(String(error.message ?? error)));
  }, []);
  const found = text === null ? null : section(text, name);
  let body = html`<p class="quiet" role="status">Loading…</p>`;
  if (problem) body = html`<${Empty}>The runbooks cannot be loaded. ${problem}<//>`;
  else if (found !== null) {
    body = html`<div class="runbook-text">${blocks(found).map((block, index) => (block.items
      ? html`<ul key=${index}>${block.items.map((item, number) => html`<li key=${number}><${Line} line=${item} /></li>`)}</ul>`
      : html`<p key=${index}><${Line} line=${block.text} /></p>`))}</div>`;
  } else if (text !== null) body = html`<${Empty}>There is no runbook of this name.<//>`;
  return html`<${Panel} id="runbook" title=${`Runbook: ${name}`} test="runbook" whole=${true} extra=${html`<a href="#/">Back to the overview</a>`}>${body}<//>`;
}
