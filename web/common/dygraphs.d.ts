/** What the pages use of dygraphs 2.2. */
declare module "dygraphs" {
  type Row = [Date, ...(number | null)[]];
  export default class Dygraph {
    static readonly defaultInteractionModel: object;
    constructor(element: HTMLElement, rows: Row[], options: object);
    updateOptions(options: object, blockRedraw?: boolean): void;
    xAxisRange(): [number, number];
    resize(): void;
    destroy(): void;
  }
}
