// Which colour says what. Hues are those of Okabe and Ito, which people tell apart whatever their sight; app.css has them for light and dark.

/** Lines that belong to nothing in particular, in the order they are given out. */
export const LINES = ['--blue', '--orange', '--green', '--purple', '--sky', '--red', '--yellow', '--grey'];

/** Dashes go with colours, so that lines differ without them. */
export const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4], [1, 2], [8, 2, 2, 2, 2, 2]];

/** The value of a custom property as it is now. */
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** From faint to strong, on light and on dark ground. */
export const RAMPS = {
  light: [[226, 238, 247], [120, 180, 220], [0, 114, 178], [3, 38, 63]],
  dark: [[24, 48, 70], [24, 104, 158], [86, 180, 233], [232, 246, 255]],
};

// One in ten thousand is the faintest that is shown: the tail is what one looks for.
const DECADES = 4;

/** Where a share of 1 is on the ramp (0 to 1, by its order of magnitude); null if it is nothing. */
export function strength(share) {
  if (!(share > 0)) return null;
  return Math.min(1, Math.max(0, 1 + Math.log10(share) / DECADES));
}

/** The colour at `position` (0 to 1) between `stops`. */
export function mix(stops, position) {
  const at = Math.min(1, Math.max(0, position)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  const part = at - low;
  const parts = stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * part));
  return `rgb(${parts.join(', ')})`;
}
