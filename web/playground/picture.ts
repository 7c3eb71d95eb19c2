/** Pictures of arrivals and decisions, as SVG. */

import { makeSvg } from "../common/dom";
import { LimitAnswer } from "./answer";
import { DRAWN_BINS } from "./state";

const WIDTH = 1000;

/** One short line for each time, all in one path. */
function ticks(times: number[], spanMs: number, top: number, bottom: number): string {
  return times.map((time) => `M${((time / spanMs) * WIDTH).toFixed(1)} ${top}V${bottom}`).join("");
}

/** The units that remain after each decision, until the next one. */
function levelPath(arrivals: number[], remaining: number[], spanMs: number, top: number,
                   bottom: number): string {
  const most = remaining.reduce((a, b) => Math.max(a, b), 1);
  const y = (units: number) => (bottom - (units / most) * (bottom - top)).toFixed(1);
  const points = arrivals.map((time, i) =>
    `${i === 0 ? "M" : "H"}${((time / spanMs) * WIDTH).toFixed(1)}` +
    `${i === 0 ? " " : "V"}${y(remaining[i])}`);
  return points.join("");
}

/** What one limit did: admitted and denied arrivals, and the level beneath them. */
export function makeDecisionPicture(arrivals: number[], answer: LimitAnswer,
                                    spanMs: number): SVGElement {
  const admitted = arrivals.filter((_, i) => answer.allowed[i]);
  const denied = arrivals.filter((_, i) => !answer.allowed[i]);
  return makeSvg("svg", {
    viewBox: `0 0 ${WIDTH} 100`, preserveAspectRatio: "none", role: "img", class: "decisions",
    "aria-label": `${admitted.length} of ${arrivals.length} admitted by ${answer.limit}`,
  },
  makeSvg("path", {class: "admitted", d: ticks(admitted, spanMs, 4, 28)}),
  makeSvg("path", {class: "denied", d: ticks(denied, spanMs, 32, 56)}),
  makeSvg("path", {class: "level", d: levelPath(arrivals, answer.remaining, spanMs, 64, 98)}));
}

/** How many arrivals are in each of the parts of the span. */
export function binsOf(arrivals: number[], spanMs: number): number[] {
  const bins = new Array<number>(DRAWN_BINS).fill(0);
  for (const time of arrivals) {
    const bin = Math.floor((time / spanMs) * DRAWN_BINS);
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
  const draw = (event: PointerEvent) => {
    const box = picture.getBoundingClientRect();
    const bin = Math.floor(((event.clientX - box.left) / box.width) * DRAWN_BINS);
    const share = 1 - (event.clientY - box.top) / box.height;
    const count = Math.max(0, Math.round((share * most * 100) / 96));
    if (bin < 0 || bin >= DRAWN_BINS) return;
    onDraw(bin, count);
    const height = Math.min(100, (count / most) * 96);
    bars[bin].setAttribute("y", String(100 - height));
    bars[bin].setAttribute("height", String(height));
  };
  picture.addEventListener("pointerdown", (event) => {
    picture.setPointerCapture(event.pointerId);
    draw(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) draw(event);
  });
  picture.addEventListener("pointerup", onEnd);
  return picture;
}
