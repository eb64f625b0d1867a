// Light or dark: as the system says, until somebody says otherwise.

import { createContext, useEffect, useState } from './vendor-preact.js';

const KEY = 'tidegate-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const chosen = () => {
  const value = localStorage.getItem(KEY);
  return value === 'light' || value === 'dark' ? value : null;
};
const now = () => chosen() ?? (system.matches ? 'dark' : 'light');
const apply = (theme) => {
  document.documentElement.dataset.theme = theme;
};

apply(now());

export const Theme = createContext('light');

/** The theme and how to change to the other. */
export function useThemeChoice() {
  const [theme, set] = useState(now);
  useEffect(() => {
    const follow = () => set(now());
    system.addEventListener('change', follow);
    return () => system.removeEventListener('change', follow);
  }, []);
  apply(theme);
  const toggle = () => {
    const other = theme === 'dark' ? 'light' : 'dark';
    localStorage.setItem(KEY, other);
    set(other);
  };
  return [theme, toggle];
}
