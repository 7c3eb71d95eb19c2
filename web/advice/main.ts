/** The page of `sluice advise --html`. */

import { download, make, makeTable, pageData, pageText, showNumber, toCsv } from "../common/dom";
import { duration, grouped, percent, plural } from "../common/format";
import { describeLog } from "../common/log";
import { Advice, Shares } from "./data";

const SHARES: (keyof Shares)[] = ["5%", "1%", "0.1%"];
/** What stands for a limit where no limit would do. */
const NONE = Number.MAX_SAFE_INTEGER;

function number(name: string, value: number): HTMLElement {
  return showNumber("td", name, value, value === NONE ? "none" : grouped(value));
}

/** A table that scrolls sideways in its own frame where the window is narrow. */
function wide(label: string, table: HTMLElement): HTMLElement {
  return make("div", {class: "wide", tabindex: 0, role: "region", "aria-label": label}, table);
}

function makeHead(advice: Advice): HTMLElement {
  return make("header", {},
      make("h1", {}, "Which limit suits this traffic?"),
      ...describeLog(advice, advice.keys, advice.is_sample ? "about " : ""),
      make("div", {class: "row"},
          make("button", {type: "button", click: () => download("limits.csv", "text/csv",
              limitsCsv(advice))}, "Limits as CSV"),
          make("button", {type: "button", click: () => download("advice.json",
              "application/json", pageText())}, "All as JSON")));
}

function limitsCsv(advice: Advice): string {
  return toCsv([["limit", ...SHARES.map((share) => `${share} of keys`),
      ...SHARES.map((share) => `${share} of requests`)],
      ...advice.limits.map((row) => [row.limit_expr,
          ...SHARES.map((share) => row.keys_denied[share]),
          ...SHARES.map((share) => row.requests_denied[share])])]);
}

function makeSuggestions(advice: Advice): HTMLElement {
  const about = advice.is_sample ? "about " : "";
  const cards = advice.suggestions.map((each) => make("article", {class: "card",
      "data-suggestion": each.name},
      make("h3", {}, each.name), make("pre", {}, make("code", {}, each.limit_expr)),
      make("p", {}, `Would have denied ${about}`,
          showNumber("span", "denied", each.denied, plural(each.denied, "request")),
          ` (${percent(each.denied, advice.requests)}) of ${about}`,
          showNumber("span", "keys_limited", each.keys_limited, plural(each.keys_limited, "key")),
          ` (${percent(each.keys_limited, advice.keys)}).`),
      make("p", {class: "muted"}, each.reason)));
  return make("section", {}, make("h2", {}, "Start with one of these"),
      make("div", {class: "suggestions"}, ...cards));
}

function makeBursts(advice: Advice): HTMLElement {
  const rows = advice.units_in_any_window.map((window) => make("tr", {},
      make("th", {scope: "row"}, duration(window.window_ns / 1e6)),
      number("50%", window["50%"]), number("90%", window["90%"]), number("99%", window["99%"]),
      number("most", window.most)));
  return make("section", {}, make("h2", {}, "What keys ask for"),
      make("p", {class: "muted"}, "Units in any window of a length: half of the keys never ask ",
          "for more than the first number, 90 % of them never for more than the second. Numbers ",
          "above 300 are counted in windows that may be up to a tenth longer."),
      wide("What keys ask for", makeTable("Units in any window",
          ["Window", "Half", "90 %", "99 %", "Most"], [0], rows)));
}

function makeLimits(advice: Advice): HTMLElement {
  const rows = advice.limits.map((row) => make("tr", {},
      make("th", {scope: "row"}, make("code", {}, row.limit_expr)),
      ...SHARES.map((share) => number(`keys ${share}`, row.keys_denied[share])),
      ...SHARES.map((share) => number(`requests ${share}`, row.requests_denied[share]))));
  return make("section", {}, make("h2", {}, "The limit at which a share would be denied"),
      make("p", {class: "muted"}, "The smallest L that denies something to at most this share of ",
          "the keys, or that denies at most this share of the requests. A sliding_log keeps every ",
          "admitted instant, so only limits up to 300 are tried."),
      wide("Limits", makeTable("Limits by the share that they deny",
          ["Limit", ...SHARES.map((share) => `${share} of keys`),
              ...SHARES.map((share) => `${share} of requests`)], [0], rows)));
}

function makeHits(advice: Advice): HTMLElement {
  const text = (value: string, atLeast: number, requests: number) => make("td", {class: "text"},
      value === "" || atLeast * 10 < requests ? "" :
        `${value} (${percent(atLeast, requests)})`);
  const status = (name: string, count: number | null, requests: number) => count === null ?
    make("td", {class: "number"}, "-") : showNumber("td", name, count, percent(count, requests));
  const rows = advice.hit_first.map((hit) => make("tr", {},
      make("th", {scope: "row"}, hit.key), number("needs", hit.needs),
      number("requests", hit.requests), number("denied", hit.denied),
      number("busiest_minute", hit.busiest_minute),
      status("status_4xx", hit.status_4xx, hit.requests),
      status("status_5xx", hit.status_5xx, hit.requests),
      text(hit.user_agent, hit.user_agent_at_least, hit.requests),
      text(hit.path, hit.path_at_least, hit.requests)));
  return make("section", {}, make("h2", {}, "The keys that balanced would hit first"),
      make("p", {class: "muted"}, "A user agent or a path is the key's most frequent one, with ",
          "the least share of its requests that have it."),
      wide("Keys", makeTable("Keys hit first", ["Key", "Needs", "Requests", "Denied",
          "In a minute", "4xx", "5xx", "User agent", "Path"], [0, 7, 8], rows)));
}

const advice = pageData<Advice>();
const page = document.getElementById("page")!;
page.replaceChildren(makeHead(advice));
if (advice.suggestions.length > 0) {
  page.append(makeSuggestions(advice), makeHits(advice));
  if (advice.units_in_any_window.length > 0) page.append(makeBursts(advice));
  page.append(makeLimits(advice));
}
page.append(make("section", {}, make("h2", {}, "What this cannot know"),
    make("ul", {}, ...advice.unknowns.map((sentence) => make("li", {}, sentence)))));
