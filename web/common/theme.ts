/** The colours of style.css, for what is drawn on a canvas. */

export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Calls back when the system changes between dark and light. */
export function onThemeChange(callback: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
}
