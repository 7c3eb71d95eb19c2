/** One request that is looked at: what each limit says to it. */

import { make, showNumber } from "../common/dom";
import { grouped, seconds } from "../common/format";
import { LimitAnswer } from "./answer";
import { DecisionPicture } from "./picture";

export class RequestChooser {
  readonly element: HTMLElement;
  private readonly input = make("input", {type: "range", name: "request", min: 0, max: 0, value: 0,
    input: () => this.choose()});
  private readonly text = make("span", {class: "muted small"});
  private arrivals: number[] = [];
  private shown: {answer: LimitAnswer; picture: DecisionPicture; text: HTMLElement}[] = [];

  constructor() {
    this.element = make("div", {class: "chooser row"},
        make("label", {}, "Request", this.input), this.text);
  }

  /** Forgets the limits that were added. */
  begin(arrivals: number[]): void {
    this.arrivals = arrivals;
    this.shown = [];
    this.input.max = String(Math.max(0, arrivals.length - 1));
    this.element.hidden = arrivals.length === 0;
  }

  /** Adds a limit. Returns the line of text that tells its decision. A pointer over its picture
   * chooses the nearest request. */
  add(answer: LimitAnswer, picture: DecisionPicture): HTMLElement {
    const text = make("p", {class: "small decision"});
    this.shown.push({answer, picture, text});
    picture.element.addEventListener("pointermove", (event) => {
      const box = picture.element.getBoundingClientRect();
      const time = picture.timeAt((event.clientX - box.left) / box.width);
      let nearest = 0;
      this.arrivals.forEach((arrival, i) => {
        if (Math.abs(arrival - time) < Math.abs(this.arrivals[nearest] - time)) nearest = i;
      });
      this.input.value = String(nearest);
      this.choose();
    });
    return text;
  }

  /** Shows the decisions of the chosen request. */
  choose(): void {
    if (this.arrivals.length === 0) return;
    const index = Number(this.input.value);
    const time = this.arrivals[index];
    const about = `${index + 1} of ${this.arrivals.length}, at ${seconds(time)}`;
    this.text.textContent = about;
    this.input.setAttribute("aria-valuetext", about);
    for (const {answer, picture, text} of this.shown) {
      picture.choose(time);
      const retry = answer.retry_after_ms[index];
      const delay = answer.delay_ms[index] ?? 0;
      const allowed = answer.allowed[index];
      const remaining = answer.remaining[index];
      text.replaceChildren(`Request ${index + 1}: `,
          make("b", {class: allowed ? "" : "denied"}, allowed ? "admitted" : "denied"),
          allowed ? (delay > 0 ? `, goes ahead after ${seconds(delay)}` : "") :
            (retry === null ? ", retry_after never" : `, retry_after ${seconds(retry)}`), ", ",
          showNumber("span", "chosen_remaining", remaining, grouped(remaining)), " left");
    }
  }
}
