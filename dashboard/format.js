// Numbers, times and links as people read them. Pure: what "now" is, is an argument.

const NONE = '–';
const known = (n) => typeof n === 'number' && Number.isFinite(n);

// Three significant digits at most, and never more than one after the point from 10 on.
function digits(n) {
  const a = Math.abs(n);
  if (a >= 100 || a === 0) return String(Math.round(n));
  return String(Number(n.toFixed(a >= 10 ? 1 : 2)));
}

const LARGE = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

/** 1234 → "1.23k". */
export function count(n) {
  if (!known(n)) return NONE;
  const a = Math.abs(n);
  // 999.6 would be rounded to "1000".
  for (const [size, unit] of LARGE) if (a >= size * 0.9995) return digits(n / size) + unit;
  return a > 0 && a < 0.01 ? '<0.01' : digits(n);
}

/** 1234 → "1.23k/s". */
export const rate = (n) => (known(n) ? `${count(n)}/s` : NONE);

/** 12345678 → "12.3 MB". */
export const bytes = (n) => (known(n) ? count(n).replace(/([A-Za-z]?)$/, (_, unit) => ` ${unit}B`) : NONE);

/** All digits, in groups: 1234567 → "1,234,567". */
export const exact = (n) => (known(n) ? Math.round(n).toLocaleString('en') : NONE);

/** Seconds as "12 µs", "3.4 ms", "1.2 s". */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const a = Math.abs(seconds);
  if (a === 0) return '0';
  if (a < 0.9995e-6) return `${digits(seconds * 1e9)} ns`;
  if (a < 0.9995e-3) return `${digits(seconds * 1e6)} µs`;
  if (a < 0.9995) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}

/** A share of 1 as "12 %"; small ones keep their size. */
export function percent(share) {
  if (!known(share)) return NONE;
  const p = share * 100;
  if (p > 0 && p < 0.01) return '<0.01 %';
  if (p < 100 && p > 99.9) return '>99.9 %';
  return `${digits(p)} %`;
}

/** Part of a whole; null if there is no whole. */
export const share = (part, whole) => (known(part) && known(whole) && whole > 0 ? part / whole : null);

/** How long something lasts: "45 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
export function span(seconds) {
  if (!known(seconds)) return NONE;
  const s = Math.max(0, Math.floor(seconds));
  const two = (a, unitA, b, unitB) => (b ? `${a} ${unitA} ${b} ${unitB}` : `${a} ${unitA}`);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), 'min', s % 60, 's');
  if (s < 86400) return two(Math.floor(s / 3600), 'h', Math.floor((s % 3600) / 60), 'min');
  return two(Math.floor(s / 86400), 'd', Math.floor((s % 86400) / 3600), 'h');
}

const seconds = (when, now) => Math.max(0, Math.floor((now - (typeof when === 'number' ? when : Date.parse(when))) / 1000));

/** How long ago in one unit: "12 s", "5 min". */
export function age(when, now) {
  const s = seconds(when, now);
  if (!known(s)) return NONE;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** "just now", "12 s ago", "5 min ago". */
export function ago(when, now) {
  const s = seconds(when, now);
  if (!known(s)) return NONE;
  return s < 2 ? 'just now' : `${age(when, now)} ago`;
}

/** The time of day where the reader is: "14:05:09". */
export function clock(when) {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return NONE;
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, '0')).join(':');
}

/** One or many: plural(1, "rule") → "1 rule". */
export const plural = (n, one, many = `${one}s`) => `${exact(n)} ${n === 1 ? one : many}`;

/** The latency bucket at `index` in words; the last one has no upper bound. */
export function bucketName(bounds, index) {
  if (index >= bounds.length) return `over ${duration(bounds[bounds.length - 1])}`;
  return index === 0 ? `up to ${duration(bounds[0])}` : `${duration(bounds[index - 1])} – ${duration(bounds[index])}`;
}

/** What is fit for an `href`: http, https or relative to this page. Everything else (`javascript:`, `data:`) is null. */
export function safeLink(text) {
  if (typeof text !== 'string' || text.trim() === '') return null;
  try {
    const { protocol } = new URL(text, 'http://page.invalid/');
    return protocol === 'http:' || protocol === 'https:' ? text.trim() : null;
  } catch {
    return null;
  }
}
