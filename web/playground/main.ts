/** The page of `sluice playground`: the same arrivals, decided by several limits side by side. */

import { make, showNumber } from "../common/dom";
import { grouped, percent, plural, seconds } from "../common/format";
import { Answer, Arrival, LimitAnswer, ofRequests, Problem, simulate, windowOf, withPeeks,
  worstWindow } from "./answer";
import { arrivalsOf, readTimes } from "./arrivals";
import { RequestChooser } from "./chooser";
import { binsOf, DecisionPicture, makeArrivalPicture } from "./picture";
import { DRAWN_BINS, Kind, KINDS, MAX_ARRIVALS, MAX_DECISIONS, MAX_DRAWN, MAX_LIMITS, MAX_PEEKS,
  readDrawn, readExperiment, writeExperiment } from "./state";

let experiment = readExperiment(location.hash);
let lastAsked = 0;
/** Of a server that has users. It is kept here alone, and never in the address. */
let token = "";

const controls = make("div", {class: "controls"});
/** What is wrong with one of the controls. */
const mistake = make("p", {class: "denied small error", role: "alert"});
const drawing = make("div", {});
const status = make("p", {class: "muted small", role: "status"});
const results = make("div", {class: "results"});
const chooser = new RequestChooser();
const login = make("div", {class: "controls"});
const rows: {input: HTMLInputElement; error: HTMLElement; result: HTMLElement}[] = [];

/** A wrong text stays in its field, and the experiment as it was: the sentence says why. */
function refuse(input: HTMLInputElement, sentence: string): void {
  input.setAttribute("aria-invalid", "true");
  input.dataset.mistake = sentence;
  mistake.textContent = sentence;
}

/** Another field may still be wrong: then its sentence stays. */
function accept(input: HTMLInputElement): void {
  input.removeAttribute("aria-invalid");
  const wrong = controls.querySelector<HTMLInputElement>("[aria-invalid]");
  mistake.textContent = wrong?.dataset.mistake ?? "";
  update();
}

function numberField(label: string, name: "rate" | "span" | "period" | "seed", least: number,
                     most: number): HTMLElement {
  const input = make("input", {type: "number", name, min: least, max: most, step: "any",
    value: experiment[name], change: (): void => {
      const value = Number(input.value);
      const isGood = input.value !== "" && value >= least && value <= most;
      if (!isGood) {
        return refuse(input, `"${label}" must be a number from ${grouped(least)} to ` +
            `${grouped(most)}.`);
      }
      experiment[name] = value;
      accept(input);
    }});
  return make("label", {}, label, input);
}

/** Each kind of arrivals has fields of its own. */
function makeControls(): void {
  const kind = make("select", {name: "arrivals", change: () => {
    if (kind.value === "drawn") {
      experiment.drawn = binsOf(arrivalsOf(experiment), experiment.span * 1000);
    }
    experiment.kind = kind.value as Kind;
    makeControls();
    update();
  }}, ...KINDS.map(([name, title]) =>
    make("option", {value: name, selected: name === experiment.kind}, title)));
  const fields: Record<Kind, () => HTMLElement[]> = {
    steady: () => [numberField("a second", "rate", 0.1, 1000)],
    bursts: () => [numberField("in each burst", "rate", 1, 1000),
      numberField("seconds between bursts", "period", 0.1, 86_400)],
    boundary: () => [numberField("before and after it", "rate", 1, 1000),
      numberField("seconds of the window", "period", 0.1, 86_400)],
    poisson: () => [numberField("a second, on average", "rate", 0.1, 1000),
      numberField("seed", "seed", 1, 1_000_000)],
    drawn: () => [makeDrawn()],
    times: () => [makeTimes()],
  };
  mistake.replaceChildren();
  controls.replaceChildren(make("label", {}, "Arrivals", kind), ...fields[experiment.kind](),
      numberField("seconds in all", "span", 1, 86_400));
}

/** The drawing as numbers, for the keyboard. */
function makeDrawn(): HTMLElement {
  const input = make("input", {type: "text", name: "drawn", class: "mono", spellcheck: "false",
    value: experiment.drawn.join(" "), change: (): void => {
      const counts = readDrawn(input.value);
      if (counts === null) {
        return refuse(input, `A drawing has ${DRAWN_BINS} integers from 0 to ` +
            `${grouped(MAX_DRAWN)}, with a space between them.`);
      }
      experiment.drawn = counts;
      accept(input);
    }});
  return make("label", {class: "wide"},
      `Draw in the picture, or write how many arrive in each of its ${DRAWN_BINS} parts`, input);
}

/** Takes lines of a log. */
function makeTimes(): HTMLElement {
  const area = make("textarea", {name: "times", rows: 3, spellcheck: "false",
    placeholder: "Lines of an access log, or times in seconds, one in a line", change: () => {
      experiment.times = readTimes(area.value);
      const last = experiment.times[experiment.times.length - 1] ?? 0;
      experiment.span = Math.min(86_400, Math.floor(last) + 1);
      makeControls();
      update();
    }});
  area.value = experiment.times.join("\n");
  return make("label", {class: "wide"}, "Times", area);
}

/** The field for a token, which a page has once the server asks for one. */
function makeTokenField(): HTMLElement {
  const input = make("input", {type: "password", name: "token", autocomplete: "off",
    change: () => {
      token = input.value.trim();
      update();
    }});
  return make("label", {class: "wide"},
      "Token of a user with the role check; the page keeps it until it is closed", input);
}

function showDrawing(arrivals: number[]): void {
  const spanMs = experiment.span * 1000;
  const bins = experiment.kind === "drawn" ? experiment.drawn : binsOf(arrivals, spanMs);
  const onDraw = (bin: number, count: number) => {
    if (experiment.kind !== "drawn") {
      experiment.drawn = binsOf(arrivals, spanMs);
      experiment.kind = "drawn";
      makeControls();
    }
    experiment.drawn[bin] = count;
  };
  const onEnd = () => {
    makeControls();
    update();
  };
  drawing.replaceChildren(makeArrivalPicture(bins, onDraw, onEnd), makeAxis());
}

/** The times below a picture. */
function makeAxis(): HTMLElement {
  const spanMs = experiment.span * 1000;
  return make("div", {class: "axis", "aria-hidden": "true"},
      ...[0, 0.25, 0.5, 0.75, 1].map((share) => make("span", {}, seconds(share * spanMs))));
}

function makeRow(limit: string): HTMLElement {
  const error = make("p", {class: "denied small error", role: "alert"});
  const result = make("div", {});
  const input = make("input", {type: "text", class: "mono", value: limit, spellcheck: "false",
    "aria-label": "limit", input: () => {
      experiment.limits[index()] = input.value;
      update();
    }});
  const row = {input, error, result};
  const index = () => rows.indexOf(row);
  const remove = make("button", {type: "button", "aria-label": "remove this limit", click: () => {
    if (rows.length === 1) return;
    experiment.limits.splice(index(), 1);
    rows.splice(index(), 1);
    card.remove();
    update();
  }}, "Remove");
  const card = make("article", {class: "card"},
      make("div", {class: "row"}, input, remove), error, result);
  rows.push(row);
  return card;
}

function makeRows(): void {
  rows.length = 0;
  results.replaceChildren(...experiment.limits.map(makeRow));
}

/** Hides what was decided about a former experiment, which keeps its place, or shows it again. */
function hideResults(areOld: boolean): void {
  for (const element of [chooser.element, ...rows.map(({result}) => result)]) {
    element.classList.toggle("old", areOld);
  }
}

/** Says what is wrong, and shows the character. */
function showProblem(problem: Problem): void {
  hideResults(true);
  for (const row of rows) {
    row.error.replaceChildren();
    row.input.removeAttribute("aria-invalid");
  }
  if (problem.status === 401) {
    token = "";  // A wrong one is not sent again.
    if (!login.hasChildNodes()) login.append(makeTokenField());
  }
  if (problem.index === undefined) {
    status.textContent = problem.detail;
    return;
  }
  status.replaceChildren();
  const row = rows[problem.index];
  const text = row.input.value;
  const at = problem.offset ?? text.length;
  const sentence = problem.detail.replace(/^"limits"\[\d+\]: /, "");
  row.error.replaceChildren(sentence, make("br"), make("code", {}, text.slice(0, at),
      make("mark", {}, text.slice(at, at + 1) || " "), text.slice(at + 1)));
  row.input.setAttribute("aria-invalid", "true");
  row.result.replaceChildren();
}

function showLimit(whole: LimitAnswer, asked: Arrival[], arrivals: number[],
                   result: HTMLElement): void {
  const answer = ofRequests(whole, asked);
  const admitted = answer.allowed.filter(Boolean).length;
  const denied = arrivals.length - admitted;
  const wait = answer.retry_after_ms.reduce<number>(
    (most, each, i) => (answer.allowed[i] ? most : Math.max(most, each ?? Infinity)), 0);
  const delay = answer.delay_ms.reduce<number>((most, each) => Math.max(most, each ?? 0), 0);
  const windowMs = windowOf(answer.limit);
  const entry = (label: string, number: HTMLElement) =>
    make("div", {}, make("dt", {}, label), number);
  const list = make("dl", {class: "totals"},
      entry("admitted", showNumber("dd", "admitted", admitted, grouped(admitted))),
      entry("denied", showNumber("dd", "denied", denied,
          `${grouped(denied)} (${percent(denied, arrivals.length)})`)),
      entry("longest retry_after", showNumber("dd", "retry_after_ms",
          Number.isFinite(wait) ? wait : -1, Number.isFinite(wait) ? seconds(wait) : "never")));
  if (delay > 0) {
    list.append(entry("longest delay", showNumber("dd", "delay_ms", delay, seconds(delay))));
  }
  if (windowMs !== null) {
    const worst = worstWindow(arrivals, answer.allowed, windowMs);
    list.append(entry(`admitted in the worst ${seconds(windowMs)}`,
        showNumber("dd", "worst_window", worst, grouped(worst))));
  }
  const level = asked.map(({at_ms}, i): [number, number] => [at_ms, whole.remaining[i]]);
  const picture = new DecisionPicture(arrivals, answer, level, experiment.span * 1000);
  result.replaceChildren(picture.element, makeAxis(), chooser.add(answer, picture), list);
}

function show(answer: Answer, asked: Arrival[], arrivals: number[], isCut: boolean): void {
  if ("problem" in answer) return showProblem(answer.problem);
  status.textContent = `${plural(arrivals.length, "request")} of one key, each limit by itself.` +
    (isCut ? " There are more, which are left out: fewer limits leave room for more." : "");
  hideResults(false);
  chooser.begin(arrivals);
  answer.limits.forEach((limit, i) => {
    rows[i].error.replaceChildren();
    rows[i].input.removeAttribute("aria-invalid");
    showLimit(limit, asked, arrivals, rows[i].result);
  });
  chooser.choose();
}

/** Asks the server, and shows its answer if nothing else has been asked meanwhile. */
async function update(): Promise<void> {
  const number = ++lastAsked;
  history.replaceState(null, "", "#" + writeExperiment(experiment));
  // Each part of a limit decides.
  const parts = experiment.limits.reduce((sum, limit) => sum + limit.split("&").length, 0);
  const peeks = Math.min(MAX_PEEKS, Math.floor(MAX_DECISIONS / parts / 2));
  const most = Math.min(MAX_ARRIVALS, Math.floor(MAX_DECISIONS / parts)) - peeks;
  const all = arrivalsOf(experiment);
  const arrivals = all.slice(0, most);
  showDrawing(arrivals);
  const asked = withPeeks(arrivals, experiment.span * 1000, peeks);
  const answer = await simulate(experiment.limits, asked, token);
  if (number === lastAsked) show(answer, asked, arrivals, all.length > most);
}

function start(): void {
  const add = make("button", {type: "button", click: () => {
    if (rows.length === MAX_LIMITS) return;
    experiment.limits.push("token_bucket 5/1s");
    results.append(makeRow("token_bucket 5/1s"));
    rows[rows.length - 1].input.focus();
    update();
  }}, "Add a limit");
  document.getElementById("page")!.replaceChildren(
      make("h1", {}, "Playground"),
      make("p", {class: "lede"},
          "The same requests, decided by several limits. The address holds the experiment: copy ",
          "it to show it to others."),
      make("section", {class: "card", "aria-label": "Arrivals"}, controls, mistake, drawing,
          status, login, chooser.element),
      make("h2", {}, "Limits"), legend(), results, make("p", {}, add));
  makeControls();
  makeRows();
  update();
}

function legend(): HTMLElement {
  const item = (color: string, text: string) => {
    const swatch = make("span", {class: "swatch", "aria-hidden": "true"});
    swatch.style.background = `var(--${color})`;
    return make("span", {}, swatch, text);
  };
  return make("p", {class: "legend"}, item("admitted", "admitted"), item("denied", "denied"),
      item("level", "units that remain"));
}

addEventListener("hashchange", () => {
  experiment = readExperiment(location.hash);
  makeControls();
  makeRows();
  update();
});
start();
