/** The page of `sluice replay --html`. */

import { pageData } from "../common/dom";
import { makeComparison } from "./compare";
import { ReportData } from "./data";
import { makeLimits } from "./limit";
import { makeHead, makeOverview } from "./overview";
import { Range } from "./range";

const data = pageData<ReportData>();
const range = new Range(data);
const page = document.getElementById("page")!;
page.replaceChildren(makeHead(data, range), makeOverview(data, range), makeLimits(data, range));
if (data.report.limits.length > 1) page.append(makeComparison(data));
