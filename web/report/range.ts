/** The chosen range of time, in steps of the report's timelines. */

import { ReportData, Steps } from "./data";

export class Range {
  readonly startMs: number;
  readonly stepMs: number;
  /** The number of all steps, at least 1. */
  readonly count: number;
  from = 0;
  to: number;
  private readonly first: number;
  private readonly listeners: (() => void)[] = [];

  constructor({step_ns, timeline: {steps}}: ReportData) {
    this.first = steps[0] ?? 0;
    this.count = steps.length === 0 ? 1 : steps[steps.length - 1] - this.first + 1;
    this.stepMs = step_ns / 1e6;
    this.startMs = this.beginMs(this.first);
    this.to = this.count;
  }

  /** When a step begins. (`step * step_ns` would be rounded to 53 bits.) */
  beginMs(step: number): number {
    return step * this.stepMs;
  }

  get isAll(): boolean {
    return this.from === 0 && this.to === this.count;
  }

  get fromMs(): number {
    return this.startMs + this.from * this.stepMs;
  }

  get toMs(): number {
    return this.startMs + this.to * this.stepMs;
  }

  set(from: number, to: number): void {
    if (from === this.from && to === this.to) return;
    this.from = from;
    this.to = to;
    for (const listener of this.listeners) listener();
  }

  /** Calls back after each change. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  /** The sum of a column of `timeline` over the steps in the range. */
  sum({steps}: Steps, column: number[]): number {
    const [first, end] = [this.first + this.from, this.first + this.to];
    return column.reduce((sum, value, i) =>
      steps[i] >= first && steps[i] < end ? sum + value : sum, 0);
  }

  /** Whether the range begins in the first of these steps, or earlier. */
  beginsBy({steps}: Steps): boolean {
    return steps.length === 0 || this.first + this.from <= steps[0];
  }

  /** A column with a value for every step of the whole time, `missing` where nothing happened. */
  spread<Missing>({steps}: Steps, column: number[], missing: Missing): (number | Missing)[] {
    const values = new Array<number | Missing>(this.count).fill(missing);
    steps.forEach((step, i) => values[step - this.first] = column[i]);
    return values;
  }
}
