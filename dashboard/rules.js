import { html } from './vendor-preact.js';

export function Rules() {
  return html`<p>Rules</p>`;
}
