/** Two limits: whom would the second one deny that the first one does not, and the reverse? */

import { make, makeTable, showNumber } from "../common/dom";
import { grouped, plural } from "../common/format";
import { Difference, ReportData } from "./data";

export function makeComparison(data: ReportData): HTMLElement {
  const {limits} = data.report;
  const place = make("div", {class: "compare", role: "status"});
  const choice = (chosen: number) => make("select", {}, ...limits.map((limit, i) =>
    make("option", {value: i, selected: i === chosen}, limit.limit_expr)));
  const before = choice(0);
  const after = choice(1);
  const update = () => {
    const [a, b] = [Number(before.value), Number(after.value)];
    place.replaceChildren(
        makeSide(data, "newly", "would newly be denied", find(data, a, b)),
        makeSide(data, "no_more", "would be denied no more", find(data, b, a)));
  };
  before.addEventListener("change", update);
  after.addEventListener("change", update);
  update();
  return make("section", {"aria-labelledby": "compare"},
      make("h2", {id: "compare"}, "If one limit replaced another"),
      make("div", {class: "row compare-choice"},
          make("label", {}, "Instead of ", before), make("label", {}, "take ", after)),
      place);
}

function find(data: ReportData, admits: number, denies: number): Difference | undefined {
  return data.differences.find((one) => one.admits === admits && one.denies === denies);
}

function makeSide(data: ReportData, name: string, what: string,
                  difference: Difference | undefined): HTMLElement {
  const side = make("article", {class: "card", "data-side": name});
  if (difference === undefined) {
    side.append(make("p", {class: "muted"}, "Both are the same limit."));
    return side;
  }
  const {requests, keys, most_denied: counts} = difference;
  const never = data.report.limits[difference.admits].limit_expr;
  side.append(make("p", {}, showNumber("b", "requests", requests, plural(requests, "request")),
      ` ${what}.`),
  make("p", {class: "muted small"}, showNumber("span", "keys", keys, plural(keys, "key")),
      keys === 1 ? " sees" : " see", " denials that ", make("span", {class: "mono"}, never),
      " never denies", counts.length < keys ? `; the ${counts.length} most denied:` : "."));
  if (counts.length > 0) {
    side.append(makeTable(`Keys that ${what}`, ["key", "denied", "requests"], [0],
        counts.map((count) => make("tr", {},
            make("th", {scope: "row", class: "mono"}, count.key),
            showNumber("td", "key_denied", count.denied, grouped(count.denied)),
            showNumber("td", "key_requests", count.requests, grouped(count.requests))))));
  }
  return side;
}
