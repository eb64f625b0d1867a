// Server-sent events from bytes, however the network cut them. EventSource cannot send a token, so the page reads them itself.

const MOST = 16 * 1024 * 1024;

/** Returns a function that takes chunks of bytes and calls `onMessage(event, data)` for each whole message. */
export function sseParser(onMessage, most = MOST) {
  const decoder = new TextDecoder();
  let rest = '';
  let afterCr = false;
  let event = '';
  let data = [];
  let size = 0;

  function line(text) {
    if (text === '') {
      if (data.length) onMessage(event || 'message', data.join('\n'));
      event = '';
      data = [];
      size = 0;
      return;
    }
    const colon = text.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    let value = colon < 0 ? '' : text.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'event') event = value;
    if (field === 'data') {
      size += value.length;
      data.push(value);
    }
  }

  return function push(bytes) {
    let text = decoder.decode(bytes, { stream: true });
    // The second half of a CRLF that was cut in two.
    if (afterCr && text !== '') {
      if (text[0] === '\n') text = text.slice(1);
      afterCr = false;
    }
    if (text.endsWith('\r')) afterCr = true;
    const lines = (rest + text).split(/\r\n|\r|\n/);
    rest = lines.pop();
    lines.forEach(line);
    if (rest.length + size > most) throw new Error('a message is too long');
  };
}
