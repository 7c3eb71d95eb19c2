/** Numbers and times for people, written as the program writes them in a terminal. */

/** "1,234,567" */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}

/** "15.2 %"; few are not rounded to none, nor almost all to all. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return "0.0 %";
  const tenths = Math.floor((part * 1000 + whole / 2) / whole);
  if (tenths === 0 && part > 0) return "<0.1 %";
  if (tenths === 1000 && part < whole) return ">99.9 %";
  return `${(tenths / 10).toFixed(1)} %`;
}

export function plural(count: number, one: string, many = one + "s"): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** "2015-05-19 09:05:31", UTC. */
export function utcSecond(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

/** "2015-05-19 09:05:31", or "2015-05-19 09:05:31.050" where steps are not whole seconds; UTC. */
export function utcStep(ms: number, stepMs: number): string {
  return stepMs % 1000 === 0 ? utcSecond(ms) :
    new Date(ms).toISOString().slice(0, 23).replace("T", " ");
}

/** "2015-05-19 09:05", UTC. */
export function utcMinute(ms: number): string {
  return utcSecond(ms).slice(0, 16);
}

const UNITS: [number, string][] =
    [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"], [1, "ms"]];

/** "5 min", with the largest unit that divides it. */
export function duration(ms: number): string {
  const [size, unit] = UNITS.find(([each]) => ms % each === 0 && ms >= each) ?? [1, "ms"];
  return `${ms / size} ${unit}`;
}

/** "1.5 s", "20 ms" */
export function seconds(ms: number): string {
  return ms >= 1000 || ms === 0 ? `${Math.round(ms / 10) / 100} s` :
    `${Math.round(ms * 100) / 100} ms`;
}
