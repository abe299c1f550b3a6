/** Marks parts of an element's text without changing the text. */

export interface Part {
  from: number;
  to: number;
  make: () => HTMLElement;
}

/** Puts each part, in order and apart from the others, into an element of its own, within those that are there. */
export function wrap(element: HTMLElement, parts: readonly Part[]): void {
  const texts: Text[] = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode instanceof Text) texts.push(walker.currentNode);
  let [start, next] = [0, 0];
  for (const text of texts) {
    const end = start + text.length;
    while ((parts[next]?.to ?? end) <= start && next < parts.length) next++;
    let after = next;
    while ((parts[after]?.from ?? end) < end) after++;
    // From the last to the first, since a text keeps its beginning when it is split.
    for (const { from, to, make } of parts.slice(next, after).reverse()) {
      const marked = from > start ? text.splitText(from - start) : text;
      const length = Math.min(to, end) - Math.max(from, start);
      if (length < marked.length) marked.splitText(length);
      const made = make();
      marked.replaceWith(made);
      made.append(marked);
    }
    start = end;
  }
}

export function unwrap(element: HTMLElement, selector: string): void {
  for (const each of element.querySelectorAll(selector)) each.replaceWith(...each.childNodes);
  element.normalize();
}
