/** What a page says of the logs that it was made from. */

import { make, showNumber } from "./dom";
import { duration, plural, utcSecond } from "./format";

/** The members that `--json` of `sluice replay` and `sluice advise` begins with. */
export interface LogData {
  key: string;
  requests: number;
  unreadable_lines: number;
  late_requests: number;
  most_late_ns: number;
  first_ns: number | null;
  last_ns: number | null;
}

/** Two paragraphs; `about` is "about " if the number of keys is an estimate. */
export function describeLog(log: LogData, keys: number, about = ""): HTMLElement[] {
  const lede = make("p", {class: "lede"},
      showNumber("span", "requests", log.requests, plural(log.requests, "request")),
      ` of ${about}`, showNumber("span", "keys", keys, plural(keys, "key")));
  if (log.first_ns !== null && log.last_ns !== null) {
    lede.append(`, ${utcSecond(log.first_ns / 1e6)} to ${utcSecond(log.last_ns / 1e6)} UTC`);
  }
  const notes = make("p", {class: "muted small"});
  if (log.key !== "") notes.append("The key is ", make("code", {}, log.key), ". ");
  if (log.unreadable_lines > 0) {
    notes.append(showNumber("span", "unreadable_lines", log.unreadable_lines,
        plural(log.unreadable_lines, "line")), " could not be read. ");
  }
  if (log.late_requests > 0) {
    notes.append(showNumber("span", "late_requests", log.late_requests,
        plural(log.late_requests, "request")),
    ` came too late for the order of time, by up to ${duration(log.most_late_ns / 1e6)}: ` +
    "limits take late requests for bursts.");
  }
  return [lede, notes];
}
