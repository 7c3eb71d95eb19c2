/** What `sluice replay --html` writes into its page. */

import { LogData } from "../common/log";

export interface KeyCount {
  key: string;
  denied: number;
  requests: number;
}

export interface LimitReport {
  limit_expr: string;
  requests: number;
  admitted: number;
  denied: number;
  keys_seen: number;
  keys_limited: number;
  worst_minute: {start_ns: number; denied: number} | null;
  most_denied: KeyCount[];
}

/** Columns of the steps in which anything happened: the number of the step, which begins at
 * `step * step_ns` since the epoch, and what happened in it, by limit. */
export interface Steps {
  steps: number[];
  requests: number[];
  denied: number[][];
}

export interface KeySteps extends Steps {
  key: string;
  /** The least that remained in the step, by limit. */
  level: number[][];
}

/** What the limit `denies` denies, of the requests and keys that the limit `admits` admits. */
export interface Difference {
  admits: number;
  denies: number;
  requests: number;
  keys: number;
  most_denied: KeyCount[];
}

export interface SweepPoint {
  percent: number;
  limit_expr: string;
  keys_limited: number;
}

/** The versions of a limit. Of a sample of the keys, the numbers are estimates for all keys. */
export interface Sweep {
  keys: number;
  is_sample: boolean;
  points: SweepPoint[];
}

export interface ReportData {
  command: string;
  report: LogData & {limits: LimitReport[]};
  /** The width of the steps of all timelines. */
  step_ns: number;
  timeline: Steps;
  /** By limit: how many keys have no request denied; up to 10 %, ... 100 % of them; all. */
  shares: number[][];
  differences: Difference[];
  sweep: (Sweep | null)[];
  /** By limit: for each key of its most_denied the index in `keys`. */
  timelines: number[][];
  keys: KeySteps[];
}
