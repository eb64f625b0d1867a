// As much of Markdown as runbooks are written in: sections, paragraphs, lists, and code, emphasis and links within them.

/** The text below the heading `name`, up to the next one of its level; null if there is none. */
export function section(text, name) {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line === `## ${name}`);
  if (start < 0) return null;
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith('## '));
  return lines.slice(start + 1, length < 0 ? undefined : start + 1 + length).join('\n').trim();
}

/** Paragraphs (`{text}`) and lists (`{items}`), in order. */
export function blocks(text) {
  return text.split(/\n{2,}/).map((block) => block.trim()).filter((block) => block !== '').map((block) => {
    if (!block.startsWith('- ')) return { text: block.replaceAll(/\s*\n\s*/g, ' ') };
    return { items: block.slice(2).split(/\n- /).map((item) => item.replaceAll(/\s*\n\s*/g, ' ')) };
  });
}

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\(([^)\s]+)\)/g;

/** Pieces of a line: `{kind: text|code|strong|em|link, text, to}`. */
export function inline(line) {
  const pieces = [];
  let end = 0;
  for (const match of line.matchAll(INLINE)) {
    if (match.index > end) pieces.push({ kind: 'text', text: line.slice(end, match.index) });
    const [whole, code, strong, em, text, to] = match;
    if (code) pieces.push({ kind: 'code', text: code });
    else if (strong) pieces.push({ kind: 'strong', text: strong });
    else if (em) pieces.push({ kind: 'em', text: em });
    else pieces.push({ kind: 'link', text, to });
    end = match.index + whole.length;
  }
  if (end < line.length) pieces.push({ kind: 'text', text: line.slice(end) });
  return pieces;
}
