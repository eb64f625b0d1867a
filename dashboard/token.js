// Asks for a token where the node wants one. It is kept for this tab only.

import { html, useState } from './vendor-preact.js';

export function TokenForm({ again, onToken }) {
  const [value, setValue] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (value.trim()) onToken(value.trim());
  };
  return html`<form class="panel token" data-test="token-form" onSubmit=${submit}>
    <h1>This node wants a token</h1>
    <p class="quiet">One with the role <code>read</code> is enough to look. It is kept until this tab is closed.</p>
    ${again && html`<p class="notice is-warning" role="alert">The node does not know that token.</p>`}
    <label for="token">Token</label>
    <input id="token" type="password" autocomplete="off" spellcheck="false" value=${value} onInput=${(event) => setValue(event.target.value)} />
    <button type="submit" class="primary">Look</button>
  </form>`;
}
