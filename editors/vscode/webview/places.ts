/** Files that an answer names, such as `src/prices.py:12`: links, once the extension has found that they exist. */

import { h } from "./dom";
import { call, run } from "./host";

/** A path whose last name has an ending, and perhaps a line, or a range of lines. */
const PATH = String.raw`(?:~?\.{0,2}\/)?(?:[\w.@+-]+\/)*[\w@+-][\w.@+-]*\.[a-zA-Z]\w{0,9}`;
const LINE = String.raw`(?::\d+(?:[:-]\d+)?|#L\d+(?:-L?\d+)?)`;
const IN_TEXT = new RegExp(`(?<![\\w./@:+-])(${PATH}${LINE})(?![\\w/])`);
const ALONE = new RegExp(`^${PATH}${LINE}?$`);
/** An answer that streams is drawn many times in this time. */
const WAIT_MS = 150;

const existing = new Set<string>();
const unknown = new Map<HTMLElement, string>();

/** The text with its places; in a sentence, a place has a line. */
export function withPlaces(text: string): (Node | string)[] {
  return text.split(IN_TEXT).map((piece, i) => (i % 2 === 1 ? place(piece, h("span", {}, piece)) : piece));
}

/** Code in a sentence, which may be a place, also without a line. */
export function codeSpan(text: string): HTMLElement {
  const code = h("code", {}, text);
  return ALONE.test(text) ? place(text, code) : code;
}

function place(href: string, shown: HTMLElement): HTMLElement {
  const element = h("span.place", {}, shown);
  if (existing.has(href)) link(element, href);
  else {
    if (unknown.size === 0) setTimeout(() => void find(), WAIT_MS);
    unknown.set(element, href);
  }
  return element;
}

function link(element: HTMLElement, href: string): void {
  const onclick = () => run("host/openLink", { href });
  element.replaceChildren(h("button.link", { title: `Open ${href}`, onclick }, ...element.childNodes));
}

/** Asks once for all that were drawn meanwhile and are still shown. */
async function find(): Promise<void> {
  const asked = [...unknown].filter(([element]) => element.isConnected);
  unknown.clear();
  const hrefs = [...new Set(asked.map(([, href]) => href))];
  if (hrefs.length === 0) return;
  // What cannot be asked stays text.
  const { existing: found } = await call("host/existing", { hrefs }).catch(() => ({
    existing: [] as readonly string[],
  }));
  for (const href of found) existing.add(href);
  for (const [element, href] of asked) if (existing.has(href)) link(element, href);
}
