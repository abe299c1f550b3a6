/** Colours code as the editor does. The text stands first; the colours of what is in view follow. */

import type { Tokens, TokensRequest } from "../src/messages";
import { h } from "./dom";
import { call } from "./host";
import { type Part, unwrap, wrap } from "./spans";

/** A part of an element's text: a line of a diff without its sign, or all of a code block. */
export interface Piece {
  element: HTMLElement;
  from: number;
  text: string;
  /** Gives the lines around it a meaning, but is coloured with another text. */
  isOnlyRead?: boolean;
}

interface Code {
  language?: string;
  fileName?: string;
  /** Each is read as one text, such as the old and the new one of a diff. */
  texts: readonly (readonly Piece[])[];
}

const MAX_CHARS = 200_000;
/** How soon code that grows gets colours again. */
const GROWING_MS = 400;
const UI_THEMES: Record<string, TokensRequest["uiTheme"]> = {
  "vscode-light": "vs",
  "vscode-high-contrast": "hc-black",
  "vscode-high-contrast-light": "hc-light",
};
const codes = new WeakMap<Element, Code>();
const growing = new WeakSet<Element>();
/** The elements whose colours are awaited, and whether they are to be asked for again then. */
const awaited = new WeakMap<Element, boolean>();
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    if (target instanceof HTMLElement) void paintInTurn(target);
  }
});
new MutationObserver(() => {
  for (const each of document.querySelectorAll<HTMLElement>("[data-colored]")) {
    // The colours of another theme may not be readable in this one.
    unwrap(each, ".token");
    seen.observe(each);
  }
}).observe(document.body, { attributeFilter: ["data-vscode-theme-id", "data-vscode-theme-kind"] });

/** Colours the code in the element once it is in view, and again when the theme changes. */
export function color(element: HTMLElement, code: Code): void {
  if (!code.language && !code.fileName) return;
  codes.set(element, code);
  seen.observe(element);
}

/** Says that the code has become longer at its end. */
export function grow(element: HTMLElement, code: Code): void {
  if (!codes.has(element)) return;
  codes.set(element, code);
  if (growing.has(element)) return;
  growing.add(element);
  setTimeout(() => {
    growing.delete(element);
    seen.observe(element);
  }, GROWING_MS);
}

/** Asks for an element's colours once at a time. */
async function paintInTurn(element: HTMLElement): Promise<void> {
  if (awaited.has(element)) {
    awaited.set(element, true);
    return;
  }
  awaited.set(element, false);
  // Without an answer the code stays as it is, which can be read too.
  await paint(element).catch(() => undefined);
  const isStale = awaited.get(element);
  awaited.delete(element);
  if (isStale) seen.observe(element);
}

async function paint(element: HTMLElement): Promise<void> {
  const code = codes.get(element);
  const { vscodeThemeId: theme = "", vscodeThemeKind: kind = "" } = document.body.dataset;
  const texts = code?.texts.map((pieces) => pieces.map(({ text }) => text).join("\n")) ?? [];
  if (!code || texts.reduce((sum, { length }) => sum + length, 0) > MAX_CHARS) return;
  const { language, fileName } = code;
  const named = language ? { language } : fileName ? { fileName } : {};
  const tokens = await call("host/tokens", { ...named, theme, uiTheme: UI_THEMES[kind] ?? "vs-dark", texts });
  if (theme !== (document.body.dataset.vscodeThemeId ?? "")) return paint(element);
  if (element.dataset.colored !== undefined) unwrap(element, ".token");
  element.dataset.colored = "";
  // Code that has grown meanwhile still begins with what was asked about.
  for (const [n, pieces] of code.texts.entries()) paintText(pieces, tokens.texts[n] ?? [], tokens.styles);
}

function paintText(pieces: readonly Piece[], tokens: readonly number[], styles: Tokens["styles"]): void {
  const parts = new Map<HTMLElement, Part[]>();
  let [start, next] = [0, 0];
  for (const { element, from, text, isOnlyRead } of pieces) {
    const end = start + text.length;
    while ((tokens[next + 1] ?? Number.POSITIVE_INFINITY) <= start) next += 3;
    const mine = parts.get(element) ?? [];
    if (!isOnlyRead) parts.set(element, mine);
    for (let n = next; (tokens[n] ?? end) < end; n += 3) {
      const [begin = 0, stop = 0, style = 0] = tokens.slice(n, n + 3);
      mine.push({ from: begin - start + from, to: stop - start + from, make: () => token(styles[style]) });
    }
    start = end + 1;
  }
  for (const [element, mine] of parts) wrap(element, mine);
}

const FONTS = ["italic", "bold", "underline", "struck"];

function token(style: Tokens["styles"][number] | undefined): HTMLElement {
  const span = h("span.token");
  // The page's policy allows this, but no attribute `style`.
  span.style.setProperty("--token", style?.color ?? "");
  const font = Math.max(0, style?.font ?? 0);
  span.classList.add(...FONTS.filter((_, bit) => (font & (1 << bit)) !== 0));
  return span;
}
