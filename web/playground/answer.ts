/** What the server answers to POST /v1/simulate. */

export interface LimitAnswer {
  limit: string;
  allowed: boolean[];
  remaining: number[];
  retry_after_ms: (number | null)[];
  reset_after_ms: (number | null)[];
  delay_ms: (number | null)[];
}

/** A problem object: what is wrong, and in which limit, at which character. */
export interface Problem {
  detail: string;
  /** The status of the response; 401 where the server asks for a token, or this one is wrong. */
  status?: number;
  index?: number;
  offset?: number;
}

export type Answer = {limits: LimitAnswer[]} | {problem: Problem};

export interface Arrival {
  at_ms: number;
  /** 0 asks only what remains. */
  cost: number;
}

/** The requests, and between them the questions of what remains at `count` instants of the span. */
export function withPeeks(arrivals: number[], spanMs: number, count: number): Arrival[] {
  const all = Array.from({length: count}, (_, i): Arrival =>
    ({at_ms: Math.round((i * spanMs) / (count - 1)), cost: 0}));
  for (const time of arrivals) all.push({at_ms: time, cost: 1});
  return all.sort((a, b) => a.at_ms - b.at_ms || a.cost - b.cost);
}

/** The part of an answer that is about requests. */
export function ofRequests(answer: LimitAnswer, asked: Arrival[]): LimitAnswer {
  const chosen = <Value>(column: Value[]) => column.filter((_, i) => asked[i].cost > 0);
  return {
    limit: answer.limit,
    allowed: chosen(answer.allowed),
    remaining: chosen(answer.remaining),
    retry_after_ms: chosen(answer.retry_after_ms),
    reset_after_ms: chosen(answer.reset_after_ms),
    delay_ms: chosen(answer.delay_ms),
  };
}

/** `token`: of a user, or empty. Never fails: what goes wrong is a problem. */
export async function simulate(limits: string[], arrivals: Arrival[], token: string):
    Promise<Answer> {
  try {
    const headers: Record<string, string> = {"Content-Type": "application/json"};
    if (token) headers.Authorization = `Bearer ${token}`;
    const response = await fetch("/v1/simulate", {
      method: "POST",
      headers,
      body: JSON.stringify({limits, arrivals}),
    });
    const body = await response.json();
    return response.ok ? body : {problem: body};
  } catch {
    return {problem: {detail: "The server does not answer."}};
  }
}

const UNITS: Record<string, number> = {
  ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8,
};

/** The window of a limit in milliseconds: that which stands after its first '/'. */
export function windowOf(limit: string): number | null {
  const text = /\/((?:\d+(?:ns|us|ms|s|m|h|d|w))+)/.exec(limit);
  if (!text) return null;
  let sum = 0;
  for (const [, count, unit] of text[1].matchAll(/(\d+)(ns|us|ms|s|m|h|d|w)/g)) {
    sum += Number(count) * UNITS[unit];
  }
  return sum;
}

/** The most arrivals that were admitted in any time of this length. */
export function worstWindow(arrivals: number[], allowed: boolean[], windowMs: number): number {
  const admitted = arrivals.filter((_, i) => allowed[i]);
  let most = 0;
  for (let first = 0, last = 0; last < admitted.length; ++last) {
    while (admitted[last] - admitted[first] >= windowMs) ++first;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
