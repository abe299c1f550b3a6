/** Builds elements from values; strings become text, never HTML. */

type Child = Node | string | undefined | false;
const FOCUSABLE = "a, button, summary, input, textarea, [tabindex]";
type Attributes = Record<string, string | boolean | number | ((event: never) => void) | undefined>;

/**
 * Controls and overrides of the writing direction, which make text read otherwise than it is (CVE-2021-42574).
 * The joiners of emoji and of Persian, and the marks of Hebrew and Arabic, are not among them.
 */
const MISLEADING = /[^\n\r\t\P{Cc}]|[\u202a-\u202e\u2066-\u2069]/gu;
const SPOKEN = new Set(["title", "aria-label"]);

/** Escapes characters that would mislead a reader: `\u{202e}`. */
export function visible(text: string, hidden = MISLEADING): string {
  return text.replace(hidden, (each) => `\\u{${(each.codePointAt(0) ?? 0).toString(16)}}`);
}

/**
 * As in `h("button.primary", {title, onclick}, "Send")`. A function is a listener, `true` an empty attribute.
 * Text of models and tools can be given as it is: misleading characters are escaped.
 */
export function h<K extends keyof HTMLElementTagNameMap>(
  selector: K | `${K}.${string}`,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag as K);
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as unknown as EventListener);
    else element.setAttribute(name, value === true ? "" : SPOKEN.has(name) ? visible(String(value)) : String(value));
  }
  const given = children.filter((child) => child !== undefined && child !== false);
  element.append(...given.map((child) => (typeof child === "string" ? visible(child) : child)));
  return element;
}

const ICONS = {
  check: "M3 8.5l3.2 3.2L13 4.8",
  cross: "M4 4l8 8M12 4l-8 8",
  circle: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z",
  arc: "M8 2.5a5.5 5.5 0 1 1-5.5 5.5",
  danger: "M5.2 1.8h5.6l3.4 3.4v5.6l-3.4 3.4H5.2l-3.4-3.4V5.2zM8 4.5v4M8 11v.3",
  hand: "M8 4.5v4M8 11.2v.3M8 1.8 14.4 13.4H1.6z",
  minus: "M3.5 8h9",
  send: "M8 13V3M3.8 7.2 8 3l4.2 4.2",
  stop: "M4.5 4.5h7v7h-7z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.2 12.6 8 5 12.8z",
  back: "M9.8 3.5 5.2 8l4.6 4.5",
  file: "M4 2h5l3 3v9H4zM9 2v3h3",
  chevron: "M6 3.5 10.5 8 6 12.5",
  up: "M3.5 10.5 8 6l4.5 4.5",
  undo: "M6.2 3.2 3 6.4l3.2 3.2M3.2 6.4h6a3.3 3.3 0 0 1 0 6.6H7",
  down: "M8 3v10M3.8 8.8 8 13l4.2-4.2",
  selection: "M3 4h10M3 8h6M3 12h10",
  prompt: "M3 4.5 6.5 8 3 11.5M8 12h5",
  braces: "M6 3c-2 0-1 5-3 5 2 0 1 5 3 5M10 3c2 0 1 5 3 5-2 0-1 5-3 5",
  bubble: "M2.5 3.5h11v7h-6L4.5 13v-2.5h-2z",
  pencil: "M3 13l.6-2.9 7.2-7.2 2.3 2.3-7.2 7.2zM9.4 4.3l2.3 2.3",
  plus: "M8 3v10M3 8h10",
  box: "M2.5 3h11v3h-11zM3.5 6v7h9V6M6.5 8.5h3",
  editor: "M2.5 3h11v10h-11zM2.5 6h11M6 3v3",
  share: "M8 10V2.5M5 5.2 8 2.2l3 3M3.5 8v5.5h9V8",
  fork: "M4.5 6a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5zM4.5 13.5a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5zM11.5 6a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5zM4.5 6v4M11.5 6c0 3-7 1-7 4",
  book: "M8 4.2C6.5 2.8 5 2.8 3 3.4v9c2-.6 3.5-.6 5 .8 1.5-1.4 3-1.4 5-.8v-9c-2-.6-3.5-.6-5 .8zM8 4.2v9",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5",
} as const;
export type IconName = keyof typeof ICONS;

/** Shows that something is in progress; the header says in words what it is. */
export function dots(): HTMLElement {
  return h("div.dots", { "aria-hidden": "true" }, h("span"), h("span"), h("span"));
}

export function icon(name: IconName): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** Replaces an element and keeps the keyboard focus on the same control, or on the one now in its place. */
export function replace(old: Element, made: HTMLElement): void {
  const at = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement ?? old);
  old.replaceWith(made);
  if (at < 0) return;
  const controls = made.querySelectorAll<HTMLElement>(FOCUSABLE);
  controls[Math.min(at, controls.length - 1)]?.focus({ preventScroll: true });
}

/** A click or key meant for something else must not answer a question that has just appeared. */
const INERT_MS = 400;

/** Lets it take clicks after some time on the screen; the time that a busy page needs to paint it does not count. */
export function activateOnceSeen(activate: () => void): void {
  requestAnimationFrame(() => setTimeout(activate, INERT_MS));
}
