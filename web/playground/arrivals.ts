/** The arrivals of an experiment, in milliseconds since its begin. */

import { DRAWN_BINS, Experiment, MAX_ARRIVALS } from "./state";

/** Random numbers from 0 to 1, the same for the same seed: mulberry32, by Tommy Ettinger. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function steady({rate, span}: Experiment): number[] {
  // All before the end; a product may be slightly more than its number, as 0.1 * 30 is.
  const count = Math.min(MAX_ARRIVALS + 1, Math.ceil(rate * span - 1e-9));
  return Array.from({length: count}, (_, i) => (i * 1000) / rate);
}

/** Each burst has its arrivals one millisecond apart. */
function bursts({rate, span, period}: Experiment): number[] {
  const times: number[] = [];
  for (let begin = 0; begin < span && times.length <= MAX_ARRIVALS; begin += period) {
    for (let i = 0; i < rate; ++i) times.push(begin * 1000 + i);
  }
  return times;
}

/** All of one window's units at its end, and all of the next one's at its begin: twice as many in
 * no time. */
function boundary({rate, span, period}: Experiment): number[] {
  const times: number[] = [];
  for (let end = period; end <= span && times.length <= MAX_ARRIVALS; end += 2 * period) {
    for (let i = Math.floor(rate); i > 0; --i) times.push(end * 1000 - i);
    for (let i = 0; i < rate; ++i) times.push(end * 1000 + i);
  }
  return times;
}

function poisson({rate, span, seed}: Experiment): number[] {
  const random = randomOf(seed);
  const times: number[] = [];
  for (let at = 0; ; ) {
    at += (-Math.log(1 - random()) * 1000) / rate;
    if (at >= span * 1000 || times.length > MAX_ARRIVALS) return times;
    times.push(Math.round(at * 1000) / 1000);
  }
}

function drawn({drawn: counts, span}: Experiment): number[] {
  const width = (span * 1000) / DRAWN_BINS;
  const times: number[] = [];
  for (let bin = 0; bin < DRAWN_BINS && times.length <= MAX_ARRIVALS; ++bin) {
    for (let i = 0; i < counts[bin]; ++i) times.push((bin + i / counts[bin]) * width);
  }
  return times;
}

/** In order, of a pattern those within its span; if there are more than MAX_ARRIVALS, not all. */
export function arrivalsOf(experiment: Experiment): number[] {
  const make = {
    steady, bursts, boundary, poisson, drawn,
    times: ({times}: Experiment) => times.map((time) => time * 1000),
  }[experiment.kind];
  const times = make(experiment);
  const integral = times.map((time) => Math.max(0, Math.round(time * 1000) / 1000));
  const end = experiment.kind === "times" ? Infinity : experiment.span * 1000;
  return integral.filter((time) => time < end).sort((a, b) => a - b);
}

/** The times of a log, as seconds since the first: of each line the first ISO time, or time of
 * Apache and nginx; if no line has one, the number at its start. Other lines are left out. */
export function readTimes(text: string): number[] {
  const months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const dates: number[] = [];
  const seconds: number[] = [];
  for (const line of text.split("\n")) {
    const iso = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?/.exec(line);
    const common =
        /\[(\d\d)\/(\w{3})\/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d\d)(\d\d)\]/.exec(line);
    const plain = /^\s*(\d+(\.\d+)?)/.exec(line);
    if (common) {
      const month = String(months.indexOf(common[2]) / 3 + 1).padStart(2, "0");
      dates.push(Date.parse(`${common[3]}-${month}-${common[1]}T${common[4]}${common[5]}:` +
                            common[6]) / 1000);
    } else if (iso) {
      dates.push(Date.parse(iso[0].replace(" ", "T") + (iso[2] ? "" : "Z")) / 1000);
    } else if (plain) {
      seconds.push(Number(plain[1]));
    }
  }
  const times = dates.length > 0 ? dates : seconds;
  const good = times.filter(Number.isFinite).sort((a, b) => a - b).slice(0, MAX_ARRIVALS);
  return good.map((time) => Math.round((time - good[0]) * 1e6) / 1e6);
}
