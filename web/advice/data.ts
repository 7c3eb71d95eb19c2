/** What `sluice advise --json` prints. */

import { LogData } from "../common/log";

export type Shares = {"5%": number, "1%": number, "0.1%": number};

export interface Advice extends LogData {
  keys: number;
  keys_kept: number;
  is_sample: boolean;
  units_in_any_window:
      {window_ns: number, "50%": number, "90%": number, "99%": number, most: number}[];
  limits: {limit_expr: string, keys_denied: Shares, requests_denied: Shares}[];
  hit_first: {
    key: string, requests: number, denied: number, needs: number, busiest_minute: number,
    span_ns: number, status_4xx: number | null, status_5xx: number | null, user_agent: string,
    user_agent_at_least: number, path: string, path_at_least: number,
  }[];
  suggestions: {
    name: string, limit_expr: string, denied: number, keys_limited: number, reason: string,
  }[];
  unknowns: string[];
}
