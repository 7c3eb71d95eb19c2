/** The head of the report, and the requests over time with the range that filters the rest. */

import { download, make, makeTable, pageText, showNumber, toCsv } from "../common/dom";
import { duration, grouped, utcStep } from "../common/format";
import { describeLog } from "../common/log";
import { Series, TimeChart } from "../common/time_chart";
import { ReportData } from "./data";
import { Range } from "./range";

export function makeHead(data: ReportData, range: Range): HTMLElement {
  return make("header", {},
      make("h1", {}, "Which requests would have been denied?"),
      ...describeLog(data.report, data.report.limits[0].keys_seen),
      make("pre", {tabindex: 0, "aria-label": "The command that made this report"},
          make("code", {}, data.command)),
      make("div", {class: "row"},
          exportButton("Limits as CSV", () => download("limits.csv", "text/csv", limitsCsv(data))),
          exportButton("Keys as CSV", () => download("keys.csv", "text/csv", keysCsv(data))),
          exportButton("Time as CSV", () => download("time.csv", "text/csv", timeCsv(data, range))),
          exportButton("All as JSON",
              () => download("report.json", "application/json", pageText()))));
}

function exportButton(text: string, click: () => void): HTMLElement {
  return make("button", {type: "button", click}, text);
}

function limitsCsv({report}: ReportData): string {
  return toCsv([["limit", "requests", "admitted", "denied", "keys_seen", "keys_limited"],
      ...report.limits.map((limit) => [limit.limit_expr, limit.requests, limit.admitted,
          limit.denied, limit.keys_seen, limit.keys_limited])]);
}

function keysCsv({report}: ReportData): string {
  return toCsv([["limit", "key", "denied", "requests"],
      ...report.limits.flatMap((limit) => limit.most_denied.map(
          (count) => [limit.limit_expr, count.key, count.denied, count.requests]))]);
}

function timeCsv({report, timeline}: ReportData, range: Range): string {
  const {steps, requests, denied} = timeline;
  const heads = report.limits.map((limit) => `denied by ${limit.limit_expr}`);
  return toCsv([["time", "requests", ...heads],
      ...steps.map((step, i) => [new Date(range.beginMs(step)).toISOString(), requests[i],
          ...denied.map((column) => column[i])])]);
}

export function makeOverview(data: ReportData, range: Range): HTMLElement {
  const {timeline, report} = data;
  const series: Series[] = [
    {name: "requests", color: "bar", values: range.spread(timeline, timeline.requests, 0)},
    ...report.limits.map((limit, i) => ({
      name: `denied by ${limit.limit_expr}`,
      color: `series-${i + 1}`,
      values: range.spread(timeline, timeline.denied[i], 0),
      isLine: true,
    }))];
  const chart = new TimeChart({
    label: "Requests over time, and the requests that each limit denies. " +
        "The table below has the numbers.",
    startMs: range.startMs,
    stepMs: range.stepMs,
    series,
    height: 280,
    hasSelector: true,
    onRange: (from, to) => range.set(from, to),
  });
  range.onChange(() => chart.show(range.from, range.to));
  const section = make("section", {"aria-labelledby": "over-time"},
      make("h2", {id: "over-time"}, "Over time"),
      make("div", {class: "card"}, chart.element, makeRangeControls(range, chart),
          makeNumbers(data, range)));
  requestAnimationFrame(() => chart.draw());
  return section;
}

/** The same range as the chart's handles choose, for the keyboard. */
function makeRangeControls(range: Range, chart: TimeChart): HTMLElement {
  const from = make("input", {type: "range", min: 0, max: range.count - 1, step: 1});
  const to = make("input", {type: "range", min: 1, max: range.count, step: 1});
  const text = make("span", {class: "muted small", role: "status"});
  const all = make("button", {type: "button", click: () => choose(0, range.count)}, "Show all");
  const choose = (first: number, last: number) => {
    range.set(first, last);
    chart.show(range.from, range.to);
  };
  const name = (ms: number) => utcStep(ms, range.stepMs);
  const number = (input: HTMLInputElement) => Number(input.value);
  from.addEventListener("input", () => choose(number(from), Math.max(number(from) + 1, range.to)));
  to.addEventListener("input", () => choose(Math.min(range.from, number(to) - 1), number(to)));
  const update = () => {
    from.value = String(range.from);
    to.value = String(range.to);
    from.setAttribute("aria-valuetext", name(range.fromMs));
    to.setAttribute("aria-valuetext", name(range.toMs));
    all.disabled = range.isAll;
    text.textContent = (range.isAll ? "The whole time" :
        `Only ${name(range.fromMs)} to ${name(range.toMs)} UTC`) +
        `, in steps of ${duration(range.stepMs)}`;
  };
  update();
  range.onChange(update);
  return make("div", {class: "range row"},
      make("label", {}, "From ", from), make("label", {}, "To ", to), all, text);
}

/** The numbers of the chart, made when they are first asked for. */
function makeNumbers({report, timeline}: ReportData, range: Range): HTMLElement {
  const details = make("details", {class: "small"}, make("summary", {}, "The numbers as a table"));
  const fill = () => {
    const rows = timeline.steps.map((step, i) => make("tr", {},
        make("th", {scope: "row"}, utcStep(range.beginMs(step), range.stepMs)),
        showNumber("td", "requests", timeline.requests[i], grouped(timeline.requests[i])),
        ...timeline.denied.map(
            (column) => showNumber("td", "denied", column[i], grouped(column[i])))));
    const heads = ["time (UTC)", "requests",
        ...report.limits.map((limit) => `denied by ${limit.limit_expr}`)];
    const table = makeTable("Requests and denials over time", heads, [0], rows);
    const scroll = make("div", {class: "scroll", tabindex: 0, role: "region",
        "aria-label": "Requests and denials over time"}, table);
    scroll.style.maxHeight = "24rem";
    details.append(scroll);
  };
  details.addEventListener("toggle", fill, {once: true});
  return details;
}
