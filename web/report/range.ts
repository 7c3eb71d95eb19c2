/** The chosen range of time, in steps of the report's timeline. */

import { Steps } from "./data";

export class Range {
  readonly startMs: number;
  readonly stepMs: number;
  /** The number of all steps, at least 1. */
  readonly count: number;
  from = 0;
  to: number;
  private readonly first: number;
  private readonly listeners: (() => void)[] = [];

  constructor(timeline: Steps) {
    const {steps} = timeline;
    this.first = steps[0] ?? 0;
    this.count = steps.length === 0 ? 1 : steps[steps.length - 1] - this.first + 1;
    this.stepMs = timeline.step_ns / 1e6;
    this.startMs = this.first * this.stepMs;
    this.to = this.count;
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

  /** The sum of a column of `timeline` over the steps that begin in the range. */
  sum(timeline: Steps, column: number[]): number {
    const stepMs = timeline.step_ns / 1e6;
    let sum = 0;
    for (let i = 0; i < column.length; ++i) {
      const atMs = timeline.steps[i] * stepMs;
      if (this.isAll || (atMs >= this.fromMs && atMs < this.toMs)) sum += column[i];
    }
    return sum;
  }

  /** A column with a value for every step of the whole time, `missing` where nothing happened. */
  spread<Missing>(timeline: Steps, column: number[], missing: Missing): (number | Missing)[] {
    const ratio = timeline.step_ns / 1e6 / this.stepMs;
    const first = Math.floor(this.first / ratio);
    const count = Math.floor((this.first + this.count - 1) / ratio) - first + 1;
    const values = new Array<number | Missing>(count).fill(missing);
    timeline.steps.forEach((step, i) => values[step - first] = column[i]);
    return values;
  }
}
