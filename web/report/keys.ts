/** The keys that a limit denies most, each with its own timeline. */

import { make, makeSvg, makeTable, showNumber } from "../common/dom";
import { duration, grouped, percent } from "../common/format";
import { TimeChart } from "../common/time_chart";
import { KeyCount, KeySteps, ReportData } from "./data";
import { Range } from "./range";

/** How many keys a table shows at first. */
const FEW = 10;
const SPARK = {width: 128, height: 24};

export function makeKeys(data: ReportData, index: number, range: Range): HTMLElement {
  const counts = data.report.limits[index].most_denied;
  if (counts.length === 0) return make("p", {class: "muted small"}, "None.");
  const body = make("div", {class: "keys"});
  let showsAll = false;
  const more = make("button", {type: "button", class: "small", click: () => {
    showsAll = !showsAll;
    update();
  }});
  const update = () => {
    const shown = rowsIn(data, index, range).slice(0, showsAll ? counts.length : FEW);
    const rows = shown.map((row) => makeRow(data, index, row, range));
    body.replaceChildren(makeTable(`Keys that ${data.report.limits[index].limit_expr} denies most`,
        ["key", "over time", "denied", "requests", "share"], [0, 1], rows));
    more.textContent = showsAll ? `Show ${FEW}` : `Show all ${counts.length}`;
    more.setAttribute("aria-expanded", String(showsAll));
  };
  update();
  range.onChange(update);
  return counts.length > FEW ? make("div", {}, body, more) : body;
}

/** A key with its counts in the range, and its timeline. */
interface KeyRow extends KeyCount {
  steps: KeySteps;
  /** The range has more requests, of a part of the timeline that was forgotten. */
  isPart?: boolean;
}

function sumOf(column: number[]): number {
  return column.reduce((sum, one) => sum + one, 0);
}

/** The rows of the keys, the most denied in the range first. */
function rowsIn(data: ReportData, index: number, range: Range): KeyRow[] {
  const rows = data.report.limits[index].most_denied.map((count, i) =>
    ({...count, steps: data.keys[data.timelines[index][i]]}));
  if (range.isAll) return rows;
  return rows.map(({key, steps, requests}) => ({
    key, steps, denied: range.sum(steps, steps.denied[index]),
    requests: range.sum(steps, steps.requests),
    isPart: sumOf(steps.requests) < requests && range.beginsBy(steps),
  })).sort((a, b) => b.denied - a.denied);
}

function makeRow(data: ReportData, index: number, row: KeyRow,
                 range: Range): HTMLTableRowElement {
  const text = (count: number) => (row.isPart ? "at least " : "") + grouped(count);
  const open = () => openKey(data, row.steps, index, range);
  return make("tr", {},
      make("th", {scope: "row"}, make("button", {
        type: "button", class: "plain mono", "aria-haspopup": "dialog", click: open,
      }, row.key)),
      make("td", {class: "spark"}, makeSpark(row.steps, index, range)),
      showNumber("td", "key_denied", row.denied, text(row.denied)),
      showNumber("td", "key_requests", row.requests, text(row.requests)),
      make("td", {class: "number muted"}, row.isPart ? "" : percent(row.denied, row.requests)));
}

/** The key's requests in the range, and the denied ones of them in red. */
function makeSpark(steps: KeySteps, index: number, range: Range): SVGElement {
  const {width, height} = SPARK;
  const svg = makeSvg("svg", {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true",
  });
  const spanMs = range.toMs - range.fromMs;
  const most = Math.max(1, ...steps.requests);
  const stepWidth = Math.max(1, range.stepMs / spanMs * width);
  const bars = (column: number[]) => steps.steps.map((step, i) => {
    const x = (range.beginMs(step) - range.fromMs) / spanMs * width;
    if (column[i] === 0 || x < -stepWidth || x >= width) return "";
    const y = Math.max(1, column[i] / most * (height - 1));
    return `M${x.toFixed(1)} ${height}v${-y.toFixed(1)}h${stepWidth.toFixed(1)}V${height}z`;
  }).join("");
  svg.append(makeSvg("path", {d: bars(steps.requests), fill: "var(--admitted)"}),
      makeSvg("path", {d: bars(steps.denied[index]), fill: "var(--denied)"}));
  return svg;
}

/** Opens the key's own timeline: its requests, the denied ones, and what the limit had left. */
function openKey(data: ReportData, steps: KeySteps, index: number, range: Range): void {
  const close = make("button", {type: "button"}, "Close");
  const place = make("div", {});
  const dialog = make("dialog", {"aria-labelledby": "key-title"},
      make("header", {}, make("h2", {id: "key-title", class: "mono"}, steps.key), close), place);
  close.addEventListener("click", () => dialog.close());
  let chart: TimeChart | null = null;
  const show = (limit: number) => {
    chart?.destroy();
    chart = makeKeyChart(steps, limit, range);
    place.replaceChildren(makeKeyCounts(data, steps, limit), chart.element);
    chart.draw();
    if (!range.isAll) chart.show(range.from, range.to);
  };
  if (data.report.limits.length > 1) {
    const select = make("select", {}, ...data.report.limits.map((limit, i) =>
      make("option", {value: i, selected: i === index}, limit.limit_expr)));
    select.addEventListener("change", () => show(Number(select.value)));
    dialog.append(make("label", {class: "row small"}, "Limit ", select));
  }
  dialog.addEventListener("close", () => {
    chart?.destroy();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  show(index);
}

function makeKeyCounts(data: ReportData, steps: KeySteps, index: number): HTMLElement {
  const limit = data.report.limits[index];
  const place = data.timelines[index].indexOf(data.keys.indexOf(steps));
  const {requests, denied} = place < 0 ?
    {requests: sumOf(steps.requests), denied: sumOf(steps.denied[index])} :
    limit.most_denied[place];
  const text = make("p", {"data-limit": index},
      showNumber("b", "key_denied", denied, grouped(denied)), " of ",
      showNumber("b", "key_requests", requests, grouped(requests)), " requests denied by ",
      make("span", {class: "mono"}, limit.limit_expr), `, ${percent(denied, requests)}`);
  if (sumOf(steps.requests) < requests) {
    text.append(`. The timeline has the last ${grouped(sumOf(steps.requests))} of them.`);
  }
  return text;
}

function makeKeyChart(steps: KeySteps, index: number, range: Range): TimeChart {
  const denied = steps.denied[index];
  const admitted = steps.requests.map((requests, i) => requests - denied[i]);
  return new TimeChart({
    label: `The requests of ${steps.key} over time, in steps of ${duration(range.stepMs)}`,
    startMs: range.startMs,
    stepMs: range.stepMs,
    series: [
      {name: "admitted", color: "admitted", values: range.spread(steps, admitted, 0)},
      {name: "denied", color: "denied", values: range.spread(steps, denied, 0)},
      {name: "least left of the limit", color: "level", isLine: true, isRight: true,
        values: range.spread(steps, steps.level[index], null)}],
    height: 300,
    isStacked: true,
    hasSelector: true,
  });
}
