/** One limit: its totals, its denials over time, the keys that it denies, and its neighbours. */

import { make, makeBar, makeTable, showNumber } from "../common/dom";
import { grouped, percent, plural, utcMinute } from "../common/format";
import { TimeChart } from "../common/time_chart";
import { LimitReport, ReportData } from "./data";
import { makeKeys } from "./keys";
import { Range } from "./range";

export function makeLimits(data: ReportData, range: Range): HTMLElement {
  return make("section", {"aria-labelledby": "limits"},
      make("h2", {id: "limits"}, data.report.limits.length === 1 ? "The limit" : "Side by side"),
      make("div", {class: "limits"},
          ...data.report.limits.map((limit, i) => makeLimit(data, limit, i, range))));
}

function makeLimit(data: ReportData, limit: LimitReport, index: number,
                   range: Range): HTMLElement {
  return make("article", {class: "card", "data-limit": index, "aria-label": limit.limit_expr},
      make("h3", {class: "mono"}, limit.limit_expr),
      makeTotals(data, limit, index, range),
      makeChart(data, index, range),
      makeWorstMinute(limit),
      make("h4", {}, "Denied most"),
      makeKeys(data, index, range),
      make("h4", {}, "Keys by share of their requests that is denied"),
      makeShares(data, index),
      make("h4", {}, "Keys that see any denial, if the limit were another"),
      makeSweep(data, limit, index));
}

function makeTotals(data: ReportData, limit: LimitReport, index: number,
                    range: Range): HTMLElement {
  const list = make("dl", {class: "totals"});
  const entry = (label: string, name: string, value: number, note: string) => {
    const number = showNumber("dd", name, value, grouped(value));
    if (note !== "") number.append(" ", make("span", {class: "note"}, note));
    return make("div", {}, make("dt", {}, label), number);
  };
  const update = () => {
    const all = range.isAll;
    const requests = all ? limit.requests : range.sum(data.timeline, data.timeline.requests);
    const denied = all ? limit.denied : range.sum(data.timeline, data.timeline.denied[index]);
    const limited = entry("keys limited", "keys_limited", limit.keys_limited,
        percent(limit.keys_limited, limit.keys_seen));
    if (!all) limited.querySelector("dt")!.textContent = "keys limited, ever";
    list.replaceChildren(entry("requests", "requests", requests, ""),
        entry("admitted", "admitted", requests - denied, ""),
        entry("denied", "denied", denied, percent(denied, requests)), limited);
    list.querySelector('[data-name="denied"]')!.classList.toggle("denied", denied > 0);
  };
  update();
  range.onChange(update);
  return list;
}

function makeChart({timeline, report}: ReportData, index: number, range: Range): HTMLElement {
  const denied = timeline.denied[index];
  const admitted = timeline.requests.map((requests, i) => requests - denied[i]);
  const chart = new TimeChart({
    label: `Requests over time that ${report.limits[index].limit_expr} admits and denies`,
    startMs: range.startMs,
    stepMs: range.stepMs,
    series: [
      {name: "admitted", color: "admitted", values: range.spread(timeline, admitted, 0)},
      {name: "denied", color: "denied", values: range.spread(timeline, denied, 0)}],
    height: 150,
    isStacked: true,
    onRange: (from, to) => range.set(from, to),
  });
  range.onChange(() => chart.show(range.from, range.to));
  requestAnimationFrame(() => chart.draw());
  return chart.element;
}

function makeWorstMinute({worst_minute: worst}: LimitReport): HTMLElement {
  const note = make("p", {class: "muted small"});
  if (worst === null) {
    note.append("No request is denied.");
  } else {
    note.append("Worst minute: ",
        showNumber("span", "worst_minute", worst.denied, plural(worst.denied, "denial")),
        ` in ${utcMinute(worst.start_ns / 1e6)} UTC`);
  }
  return note;
}

function shareName(bin: number): string {
  if (bin === 0) return "none";
  if (bin === 11) return "all";
  return bin === 1 ? "up to 10 %" : `${(bin - 1) * 10} to ${bin * 10} %`;
}

/** The largest of many numbers, at least 1. */
function largest(values: number[]): number {
  return values.reduce((most, value) => Math.max(most, value), 1);
}

function makeShares(data: ReportData, index: number): HTMLElement {
  const shares = data.shares[index];
  const keys = shares.reduce((sum, count) => sum + count, 0);
  const most = largest(data.shares.flatMap((counts) => counts.slice(1)));
  const rows = shares.map((count, bin) => make("tr", {class: count === 0 ? "zero" : ""},
      make("th", {scope: "row"}, shareName(bin)),
      showNumber("td", `share_${bin}`, count, grouped(count)),
      make("td", {class: "number muted"}, percent(count, keys)),
      make("td", {}, ...(bin === 0 ? [] : [makeBar(count / most, "denied")]))));
  return makeBars("Keys by share of their requests that is denied", "share denied", rows);
}

function makeSweep(data: ReportData, limit: LimitReport, index: number): HTMLElement {
  const sweep = data.sweep[index];
  if (sweep === null) {
    return make("p", {class: "muted small"},
        "Not known: the states of the other limits did not fit into memory.");
  }
  const own = {percent: 100, limit_expr: limit.limit_expr, keys_limited: limit.keys_limited};
  const most = largest([...data.sweep.flatMap((one) => one?.points ?? []), ...data.report.limits]
      .map((one) => one.keys_limited));
  const rows = [...sweep.points, own].sort((a, b) => a.percent - b.percent).map((point) =>
    make("tr", {class: point === own ? "own" : ""},
        make("th", {scope: "row", class: "mono"}, point.limit_expr),
        showNumber("td", `sweep_${point.percent}`, point.keys_limited,
            grouped(point.keys_limited)),
        make("td", {class: "number muted"}, percent(point.keys_limited, limit.keys_seen)),
        make("td", {}, makeBar(point.keys_limited / most, "denied"))));
  const bars = makeBars("Keys that see any denial, by limit", "limit", rows);
  if (sweep.is_sample) {
    bars.append(make("p", {class: "muted small"},
        "There are too many keys to try the other limits on all of them: their numbers are ",
        "estimated from ", showNumber("span", "sweep_keys", sweep.keys,
            plural(sweep.keys, "key")), " of ", grouped(limit.keys_seen), "."));
  }
  return bars;
}

/** A table of keys with a bar in each row. The bars of all limits have the same scale. */
function makeBars(caption: string, head: string, rows: HTMLTableRowElement[]): HTMLElement {
  const table = makeTable(caption, [head, "keys", "of all", ""], [0, 3], rows);
  table.classList.add("bars");
  return make("div", {}, table);
}
