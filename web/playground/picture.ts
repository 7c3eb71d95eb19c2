/** Pictures of arrivals and decisions, as SVG. */

import { makeSvg } from "../common/dom";
import { LimitAnswer } from "./answer";
import { DRAWN_BINS, MAX_DRAWN } from "./state";

const WIDTH = 1000;
/** The dots stand in so many columns. */
const COLUMNS = 100;
/** Dots of admitted requests stand on their line, those of denied ones hang below theirs. */
const ADMITTED_LINE = 66;
const DENIED_LINE = 78;
const MOST_SPACE = 7;
const LEVEL = {top: 150, bottom: 198};

function columnOf(time: number, spanMs: number): number {
  return Math.min(COLUMNS - 1, Math.floor((time / spanMs) * COLUMNS));
}

/** The space between the dots of a column, so that those of the fullest one have room. */
function spaceFor(arrivals: number[], spanMs: number): number {
  const counts = new Array<number>(COLUMNS).fill(0);
  for (const time of arrivals) ++counts[columnOf(time, spanMs)];
  return Math.min(MOST_SPACE, ADMITTED_LINE / Math.max(1, ...counts));
}

/** One dot for each time, all in one path: lines without a length, which have round ends. */
function dots(times: number[], spanMs: number, line: number, space: number): string {
  const counts = new Array<number>(COLUMNS).fill(0);
  return times.map((time) => {
    const column = columnOf(time, spanMs);
    const x = (column + 0.5) * (WIDTH / COLUMNS);
    return `M${x} ${(line + space * (counts[column]++ + 0.5)).toFixed(1)}h0`;
  }).join("");
}

/** The units that remain, each number until the next one. */
function levelPath(level: [number, number][], spanMs: number): string {
  const most = level.reduce((a, [, units]) => Math.max(a, units), 1);
  const x = (time: number) => ((time / spanMs) * WIDTH).toFixed(1);
  const y = (units: number) =>
    (LEVEL.bottom - (units / most) * (LEVEL.bottom - LEVEL.top)).toFixed(1);
  return level.map(([time, units], i) =>
    i === 0 ? `M${x(time)} ${y(units)}` : `H${x(time)}V${y(units)}`).join("");
}

/** What one limit did: a dot for each request, the level beneath them, and a line at one request
 * which choose() moves. */
export class DecisionPicture {
  readonly element: SVGElement;
  private readonly cursor = makeSvg("path", {class: "cursor"});

  constructor(arrivals: number[], answer: LimitAnswer, level: [number, number][],
              private readonly spanMs: number) {
    const admitted = arrivals.filter((_, i) => answer.allowed[i]);
    const denied = arrivals.filter((_, i) => !answer.allowed[i]);
    const space = spaceFor(arrivals, spanMs);
    this.element = makeSvg("svg", {
      viewBox: `0 0 ${WIDTH} 200`, preserveAspectRatio: "none", role: "img", class: "decisions",
      "aria-label": `${admitted.length} of ${arrivals.length} admitted by ${answer.limit}`,
    },
    makeSvg("path", {class: "ground", d: `M0 ${LEVEL.bottom}H${WIDTH}M0 72H${WIDTH}`}),
    this.cursor,
    makeSvg("path", {class: "dots admitted", d: dots(admitted, spanMs, ADMITTED_LINE, -space)}),
    makeSvg("path", {class: "dots denied", d: dots(denied, spanMs, DENIED_LINE, space)}),
    makeSvg("path", {class: "level", d: levelPath(level, spanMs)}));
  }

  /** The time at a share of the picture's width. */
  timeAt(share: number): number {
    return share * this.spanMs;
  }

  choose(time: number): void {
    const x = ((time / this.spanMs) * WIDTH).toFixed(1);
    this.cursor.setAttribute("d", `M${x} 0V200`);
  }
}

/** How many arrivals are in each of the parts of the span. */
export function binsOf(arrivals: number[], spanMs: number): number[] {
  const bins = new Array<number>(DRAWN_BINS).fill(0);
  for (const time of arrivals) {
    // What arrives at the end itself belongs to the last one.
    const bin = time === spanMs ? DRAWN_BINS - 1 : Math.floor((time / spanMs) * DRAWN_BINS);
    if (bin >= 0 && bin < DRAWN_BINS) ++bins[bin];
  }
  return bins;
}

/** The arrivals as bars. The pointer draws them: onDraw gets a bin and its new count. */
export function makeArrivalPicture(bins: number[], onDraw: (bin: number, count: number) => void,
                                   onEnd: () => void): SVGElement {
  const most = Math.max(10, ...bins);
  const width = WIDTH / DRAWN_BINS;
  const bars = bins.map((count, bin) => {
    const height = (count / most) * 96;
    return makeSvg("rect", {
      x: bin * width + 1, y: 100 - height, width: width - 2, height, class: "arrivals",
    });
  });
  const picture = makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} 100`, preserveAspectRatio: "none", role: "img", class: "drawing",
    "aria-label": `The arrivals over time: ${bins.reduce((sum, count) => sum + count, 0)} in all`,
  }, ...bars);
  let last: number | null = null;
  const draw = (event: PointerEvent) => {
    const box = picture.getBoundingClientRect();
    const bin = Math.floor(((event.clientX - box.left) / box.width) * DRAWN_BINS);
    const share = 1 - (event.clientY - box.top) / box.height;
    // The pointer may leave the picture, above as well as below.
    const count = Math.min(MAX_DRAWN, Math.max(0, Math.round((share * most * 100) / 96)));
    if (bin < 0 || bin >= DRAWN_BINS) return;
    // A fast pointer passes bins between two events.
    const from = last ?? bin;
    for (let at = Math.min(from, bin); at <= Math.max(from, bin); ++at) {
      onDraw(at, count);
      const height = Math.min(100, (count / most) * 96);
      bars[at].setAttribute("y", String(100 - height));
      bars[at].setAttribute("height", String(height));
    }
    last = bin;
  };
  picture.addEventListener("pointerdown", (event) => {
    picture.setPointerCapture(event.pointerId);
    last = null;
    draw(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) draw(event);
  });
  // Another gesture may take the pointer away: what has been drawn by then stays.
  picture.addEventListener("pointerup", onEnd);
  picture.addEventListener("pointercancel", onEnd);
  return picture;
}
