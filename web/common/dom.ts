/** Makes elements. Text becomes text nodes only, so that no text of a log becomes markup. */

type Child = Node | string;
type Attributes = Record<string, string | number | boolean | EventListener>;

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children);
}

export function make<Tag extends keyof HTMLElementTagNameMap>(
    tag: Tag, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function makeSvg(tag: string, attributes: Attributes, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

/** An element that shows a number; the attribute data-value has it plain, data-name says what it
 * is. */
export function showNumber<Tag extends "td" | "dd" | "b" | "span">(
    tag: Tag, name: string, value: number, text: string): HTMLElementTagNameMap[Tag] {
  return make(tag, {class: "number", "data-name": name, "data-value": value}, text);
}

/** A table with a hidden caption, and columns of which all but those in `words` are numbers. */
export function makeTable(caption: string, columns: string[], words: number[],
                          rows: HTMLTableRowElement[]): HTMLTableElement {
  const heads = columns.map((column, i) =>
    column === "" ? make("td") :
      make("th", {scope: "col", class: words.includes(i) ? "" : "number"}, column));
  return make("table", {},
      make("caption", {class: "hidden"}, caption),
      make("thead", {}, make("tr", {}, ...heads)),
      make("tbody", {}, ...rows));
}

/** A bar of a share from 0 to 1, for people who see; the number stands beside it. */
export function makeBar(share: number, fill: string): HTMLElement {
  const bar = make("span", {class: "bar", "aria-hidden": "true"});
  bar.style.setProperty("--share", String(share));
  bar.style.setProperty("--fill", `var(--${fill})`);
  return bar;
}

/** The data that the page was made with. */
export function pageData<Data>(): Data {
  return JSON.parse(pageText()) as Data;
}

export function pageText(): string {
  return document.getElementById("data")!.textContent!;
}

/** Saves text as a file. */
export function download(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], {type}));
  make("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** CSV as of RFC 4180. A text that a spreadsheet would take for a formula gets an apostrophe. */
export function toCsv(rows: (string | number)[][]): string {
  const cell = (value: string | number) => {
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}
