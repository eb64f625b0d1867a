import assert from 'node:assert/strict';
import test from 'node:test';
import { sseParser } from '../sse.js';

const bytes = (text) => new TextEncoder().encode(text);

function read(chunks, most) {
  const messages = [];
  const push = sseParser((event, data) => messages.push([event, data]), most);
  chunks.forEach(push);
  return messages;
}

const STREAM = ': hello\r\n\r\nevent: tick\r\ndata: {"name":"é🔥"}\r\n\r\n: \n\nevent: journal\ndata: one\ndata:two\n\rdata\r\revent: half\ndata: never';
const MESSAGES = [['tick', '{"name":"é🔥"}'], ['journal', 'one\ntwo'], ['message', '']];

test('messages are the same wherever the network cuts', () => {
  const all = bytes(STREAM);
  assert.deepEqual(read([all]), MESSAGES);
  for (let cut = 0; cut <= all.length; cut++) {
    assert.deepEqual(read([all.slice(0, cut), all.slice(cut)]), MESSAGES, `cut at ${cut}`);
  }
  assert.deepEqual(read([...all].map((byte) => Uint8Array.of(byte))), MESSAGES, 'byte by byte');
});

test('comments and unknown fields are no messages', () => {
  assert.deepEqual(read([bytes(': a\n\nid: 7\nretry: 5\n\nevent: lonely\n\n')]), []);
});

test('an event name holds for one message only', () => {
  assert.deepEqual(read([bytes('event: a\ndata: 1\n\ndata: 2\n\n')]), [['a', '1'], ['message', '2']]);
});

test('one space after the colon belongs to the format, more to the data', () => {
  assert.deepEqual(read([bytes('data:  x\n\n')]), [['message', ' x']]);
});

test('a line or message without end is an error, not memory without end', () => {
  assert.throws(() => read([bytes('data: '), bytes('x'.repeat(60)), bytes('x'.repeat(60))], 100), /too long/);
  assert.throws(() => read([bytes('data: 0123456789\n'.repeat(20))], 100), /too long/);
  assert.equal(read([bytes(`data: ${'x'.repeat(60)}\n\n`.repeat(20))], 100).length, 20);
});
