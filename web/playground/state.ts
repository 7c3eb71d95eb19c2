/** What the page shows: the whole experiment, which the address bar holds. */

export type Kind = "steady" | "bursts" | "boundary" | "poisson" | "drawn" | "times";

export const KINDS: [Kind, string][] = [
  ["steady", "steady"],
  ["bursts", "bursts"],
  ["boundary", "attack at the boundary of a window"],
  ["poisson", "random (Poisson)"],
  ["drawn", "drawn by hand"],
  ["times", "a slice of a log"],
];

export const DRAWN_BINS = 60;

export interface Experiment {
  kind: Kind;
  /** Arrivals per second; for bursts and the attack: arrivals in each burst. */
  rate: number;
  /** In seconds. */
  span: number;
  /** The time between bursts, or the length of the attacked window, in seconds. */
  period: number;
  seed: number;
  /** Of "drawn": how many arrivals are in each of DRAWN_BINS equal parts of the span. */
  drawn: number[];
  /** Of "times": seconds since the first arrival. */
  times: number[];
  limits: string[];
}

export const MAX_LIMITS = 16;
/** What one request to the server may ask for. */
export const MAX_ARRIVALS = 10_000;
export const MAX_DECISIONS = 20_000;
/** In one part of the span; more than all kinds of arrivals have there. */
export const MAX_DRAWN = 2 * MAX_ARRIVALS;
/** At how many instants the page asks what remains. */
export const MAX_PEEKS = 241;

const FIRST: Experiment = {
  kind: "bursts",
  rate: 8,
  span: 20,
  period: 4,
  seed: 1,
  drawn: Array.from({length: DRAWN_BINS}, (_, i) => (i % 15 === 0 ? 10 : 0)),
  times: [],
  limits: [
    "token_bucket 1/1s burst=5",
    "leaky_bucket 1/1s queue=4",
    "fixed_window 5/5s",
    "sliding_window 5/5s",
    "sliding_counter 5/5s",
    "sliding_log 5/5s",
  ],
};

function bounded(text: string | null, least: number, most: number, otherwise: number): number {
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? Math.min(most, Math.max(least, value)) : otherwise;
}

function numbers(text: string | null, most: number): number[] {
  if (!text) return [];
  const values = text.split(" ").map(Number);
  return values.filter((value) => Number.isFinite(value) && value >= 0).slice(0, most);
}

/** The counts of a drawing; null if they are not DRAWN_BINS integers from 0 to MAX_DRAWN. */
export function readDrawn(text: string | null): number[] | null {
  const counts = (text ?? "").trim().split(/[\s,]+/).map((word) => (word ? Number(word) : NaN));
  const isGood = (count: number) => Number.isInteger(count) && count >= 0 && count <= MAX_DRAWN;
  return counts.length === DRAWN_BINS && counts.every(isGood) ? counts : null;
}

/** The experiment that the part of an address after '#' holds. What is missing or wrong there is as
 * in the first experiment. */
export function readExperiment(hash: string): Experiment {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const kind = KINDS.find(([name]) => name === fields.get("arrivals"));
  const limits = fields.getAll("limit").slice(0, MAX_LIMITS);
  return {
    kind: kind ? kind[0] : FIRST.kind,
    rate: bounded(fields.get("rate"), 0.1, 1000, FIRST.rate),
    span: bounded(fields.get("span"), 1, 86_400, FIRST.span),
    period: bounded(fields.get("period"), 0.1, 86_400, FIRST.period),
    seed: bounded(fields.get("seed"), 1, 1_000_000, FIRST.seed),
    drawn: readDrawn(fields.get("drawn")) ?? [...FIRST.drawn],
    times: numbers(fields.get("times"), MAX_ARRIVALS).sort((a, b) => a - b),
    limits: limits.length > 0 ? limits : [...FIRST.limits],
  };
}

/** What stands after '#' for an experiment. */
export function writeExperiment(experiment: Experiment): string {
  const fields = new URLSearchParams({arrivals: experiment.kind, span: String(experiment.span)});
  const {kind} = experiment;
  if (kind !== "drawn" && kind !== "times") fields.set("rate", String(experiment.rate));
  if (kind === "bursts" || kind === "boundary") fields.set("period", String(experiment.period));
  if (kind === "poisson") fields.set("seed", String(experiment.seed));
  if (kind === "drawn") fields.set("drawn", experiment.drawn.join(" "));
  if (kind === "times") fields.set("times", experiment.times.join(" "));
  for (const limit of experiment.limits) fields.append("limit", limit);
  return fields.toString();
}
