/** Time series, drawn by dygraphs in the colours of the theme. All times are UTC. */

import Dygraph from "dygraphs";
import { make } from "./dom";
import { grouped, utcMinute, utcStep } from "./format";
import { color, onThemeChange } from "./theme";

export interface Series {
  name: string;
  /** The name of a colour in style.css. */
  color: string;
  /** One for each step; null where nothing is known. */
  values: (number | null)[];
  /** Drawn as a line over the areas. */
  isLine?: boolean;
  /** Has a scale of its own, at the right. */
  isRight?: boolean;
}

export interface TimeChartOptions {
  /** What the chart shows, for readers that do not see it. */
  label: string;
  startMs: number;
  stepMs: number;
  series: Series[];
  height: number;
  /** Areas are put on top of each other; the last one is at the bottom. */
  isStacked?: boolean;
  /** Has a small chart of the whole time below, with handles for the range. */
  hasSelector?: boolean;
  /** Is called when the user has chosen a range, in steps. */
  onRange?: (from: number, to: number) => void;
}

/** A chart and its legend, which shows the values below the pointer. */
export class TimeChart {
  readonly element: HTMLElement;
  private readonly area: HTMLElement;
  private readonly legend = make("div", {class: "legend", "aria-hidden": "true"});
  private graph: Dygraph | null = null;
  private isQuiet = false;

  constructor(private readonly options: TimeChartOptions) {
    this.area = make("div", {class: "chart", role: "img", "aria-label": options.label});
    this.area.style.height = `${options.height}px`;
    this.element = make("div", {}, this.legend, this.area);
    this.writeLegend(null);
  }

  /** Draws the chart. Call it once, when the element is in the document and has a size. */
  draw(): void {
    const {options} = this;
    this.graph = new Dygraph(this.area, this.rows(), {
      labels: ["time", ...options.series.map((series) => series.name)],
      labelsUTC: true,
      legend: "never",
      stepPlot: true,
      stackedGraph: options.isStacked === true,
      includeZero: true,
      highlightCircleSize: 0,
      showRangeSelector: options.hasSelector === true,
      // A drag zooms, with a range selector too.
      interactionModel: Dygraph.defaultInteractionModel,
      rangeSelectorHeight: 36,
      ...this.themeOptions(),
      highlightCallback: (_: Event, x: number) => this.writeLegend(x),
      unhighlightCallback: () => this.writeLegend(null),
      drawCallback: () => this.tellRange(),
    });
    for (const image of this.area.querySelectorAll("img")) image.alt = "";
    onThemeChange(() => this.quietly({...this.themeOptions()}));
    new ResizeObserver(() => this.graph?.resize()).observe(this.area);
  }

  /** Shows only the steps from `from` to before `to`. */
  show(from: number, to: number): void {
    const {startMs, stepMs} = this.options;
    this.quietly({dateWindow: [startMs + from * stepMs, startMs + to * stepMs]});
  }

  destroy(): void {
    this.graph?.destroy();
    this.graph = null;
  }

  private quietly(options: object): void {
    this.isQuiet = true;
    this.graph?.updateOptions(options);
    this.isQuiet = false;
  }

  private get stepCount(): number {
    return this.options.series[0].values.length;
  }

  /** One row more than there are steps, so that the last step has a width; so has each other step
   * before one of which nothing is known. */
  private rows(): [Date, ...(number | null)[]][] {
    const {startMs, stepMs, series} = this.options;
    return Array.from({length: this.stepCount + 1}, (_, i) => [
      new Date(startMs + i * stepMs),
      ...series.map(({values}) => values[i] ?? values[i - 1] ?? null)]);
  }

  private themeOptions(): object {
    const {series, hasSelector} = this.options;
    const number = {
      axisLabelFormatter: (value: number) => Number.isInteger(value) ? grouped(value) : "",
      axisLabelWidth: 56,
      pixelsPerLabel: 34,
      gridLineColor: color("line"),
      axisLineColor: "transparent",
    };
    return {
      colors: series.map((one) => color(one.color)),
      series: Object.fromEntries(series.map((one) => [one.name, {
        axis: one.isRight ? "y2" : "y",
        fillGraph: !one.isLine,
        fillAlpha: 0.75,
        strokeWidth: one.isLine ? 1.75 : 0,
        showInRangeSelector: hasSelector && !one.isLine,
      }])),
      axes: {
        x: {axisLineColor: color("bar"), drawGrid: false, pixelsPerLabel: 80},
        y: number,
        y2: {...number, independentTicks: true, drawGrid: false},
      },
      rangeSelectorPlotStrokeColor: color("bar"),
      rangeSelectorPlotFillColor: color("bar"),
      rangeSelectorPlotFillGradientColor: color("bar"),
      rangeSelectorBackgroundStrokeColor: color("line"),
      rangeSelectorForegroundStrokeColor: color("accent"),
      rangeSelectorForegroundLineWidth: 1,
      rangeSelectorAlpha: 0.7,
    };
  }

  private tellRange(): void {
    if (this.isQuiet || this.graph === null || this.options.onRange === undefined) return;
    const {startMs, stepMs} = this.options;
    const [first, last] = this.graph.xAxisRange();
    const count = this.stepCount;
    const from = Math.max(0, Math.min(count - 1, Math.round((first - startMs) / stepMs)));
    const to = Math.max(from + 1, Math.min(count, Math.round((last - startMs) / stepMs)));
    this.options.onRange(from, to);
  }

  private writeLegend(x: number | null): void {
    const {startMs, stepMs, series} = this.options;
    const parts: Node[] = series.map((one) => {
      const swatch = make("span", {class: "swatch"});
      swatch.style.background = `var(--${one.color})`;
      const entry = make("span", {}, swatch, one.name);
      if (x !== null) {
        const step = Math.min(this.stepCount - 1, Math.round((x - startMs) / stepMs));
        const value = one.values[step];
        entry.append(" ", make("b", {}, value === null ? "-" : grouped(value)));
      }
      return entry;
    });
    if (x !== null) {
      const time = stepMs % 60_000 === 0 ? utcMinute(x) : utcStep(x, stepMs);
      parts.push(make("span", {}, `${time} UTC`));
    }
    this.legend.replaceChildren(...parts);
  }
}
