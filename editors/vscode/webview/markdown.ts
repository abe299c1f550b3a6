/** Turns Markdown into elements. Models are not trusted: HTML is shown as text, and images as links. */

import { marked, type Token, type Tokens } from "marked";
import { color, grow } from "./colors";
import { h } from "./dom";
import { call, hasEditor, run } from "./host";
import { codeSpan, withPlaces } from "./places";

/** The source of each element's blocks. */
const sources = new WeakMap<HTMLElement, readonly string[]>();
const COPIED_MS = 1500;
const ENTITY = /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi;
const LINE_BREAK = /^<br\s*\/?>$/i;

export function markdown(text: string): HTMLElement {
  return updateMarkdown(h("div.markdown"), text);
}

/** Redraws from the first changed block on; while text streams in, earlier blocks keep the user's selection. */
export function updateMarkdown(element: HTMLElement, text: string): HTMLElement {
  try {
    draw(element, text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // Thousands of quotes or lists in each other: nobody can read that, but what it says must be there.
    sources.delete(element);
    element.replaceChildren(h("p", {}, text));
  }
  return element;
}

function draw(element: HTMLElement, text: string): void {
  const tokens = marked.lexer(text).filter(isShown);
  const before = sources.get(element) ?? [];
  let from = tokens.findIndex(({ raw }, i) => raw !== before[i]);
  if (from >= 0 && from === before.length - 1 && extend(element.childNodes[from], tokens[from])) from = before.length;
  const nSame = from < 0 ? tokens.length : from;
  while (element.childNodes.length > nSame) element.lastChild?.remove();
  element.append(...tokens.slice(nSame).map(block));
  sources.set(
    element,
    tokens.map(({ raw }) => raw),
  );
}

/** Adds what a code block that streams in has more than is shown; its colours, and a selection in it, stay. */
function extend(shown: Node | undefined, token: Token | undefined): boolean {
  if (token?.type !== "code" || !(shown instanceof HTMLElement)) return false;
  const code = shown.querySelector<HTMLElement>(":scope > pre > code");
  const [text, before] = [String(token.text), code?.textContent ?? ""];
  const language = languageOf(token.lang);
  if (!code || shown.dataset.language !== language) return false;
  if (text.startsWith(before)) code.append(text.slice(before.length));
  // The beginning of the closing fence was taken for code.
  else if (
    !(before.startsWith(text) && code.lastChild instanceof Text && cut(code.lastChild, before.length - text.length))
  )
    return false;
  grow(code, { language, texts: [[{ element: code, from: 0, text }]] });
  return true;
}

function cut(text: Text, nChars: number): boolean {
  if (text.length < nChars) return false;
  text.deleteData(text.length - nChars, nChars);
  return true;
}

/** Checkbox tokens are skipped: the list draws the box of a task. */
function isShown({ type }: Token): boolean {
  return type !== "space" && type !== "checkbox";
}

function block(token: Token): Node {
  switch (token.type) {
    case "paragraph":
      return h("p", {}, ...inline(token.tokens));
    case "heading":
      // The panel has its own h1 and h2; headings in a message start below them.
      return h(token.depth < 2 ? "h3" : "h4", {}, ...inline(token.tokens));
    case "code":
      return codeBlock(token.text, token.lang);
    case "blockquote":
      return h("blockquote", {}, ...(token.tokens ?? []).filter(isShown).map(block));
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return h("hr");
    case "text":
      return h("span", {}, ...(token.tokens ? inline(token.tokens) : withPlaces(plain(token.text))));
    default:
      return h("p", {}, token.raw);
  }
}

function inline(tokens: readonly Token[] = []): (Node | string)[] {
  return tokens.filter(isShown).flatMap((token) => {
    switch (token.type) {
      case "strong":
        return h("strong", {}, ...inline(token.tokens));
      case "em":
        return h("em", {}, ...inline(token.tokens));
      case "del":
        return h("del", {}, ...inline(token.tokens));
      case "codespan":
        return codeSpan(token.text);
      case "br":
        return h("br");
      case "link":
        return link(token.href, ...inline(token.tokens));
      case "image":
        return link(token.href, token.text || token.href);
      case "escape":
        return token.text;
      case "text":
        return token.tokens ? h("span", {}, ...inline(token.tokens)) : withPlaces(plain(token.text));
      default:
        // The only way to break a line in a table's cell.
        return LINE_BREAK.test(token.raw.trim()) ? h("br") : token.raw;
    }
  });
}

/** Text with its character references, such as `&lt;`, as the characters that they stand for. */
function plain(text: string): string {
  return text.replace(ENTITY, (name) => new DOMParser().parseFromString(name, "text/html").body.textContent ?? name);
}

function link(href: string, ...children: (Node | string)[]): HTMLElement {
  const element = linkTo(href, children);
  // A place in the words of a link is no link of its own.
  for (const place of element.querySelectorAll(".place")) place.replaceWith(...place.childNodes);
  return element;
}

function linkTo(href: string, children: (Node | string)[]): HTMLElement {
  if (hasEditor && isFile(href))
    return h("button.link", { title: href, onclick: () => run("host/openLink", { href }) }, ...children);
  if (!/^https?:\/\//i.test(href)) return h("span", { title: href }, ...children);
  // VS Code opens it in the browser.
  return h("a", { href, title: href }, ...children);
}

/** Whether a link names a file: `a.py:12` has a line, and no scheme. A path on another computer is not opened. */
function isFile(href: string): boolean {
  return /^file:\/\/\/\w/i.test(href) || !/^($|[#?]|[/\\]{2}|[a-z][a-z\d+.-]*:(?!\d))/i.test(href);
}

/** Some models write the file's name or the like behind the language. */
function languageOf(info = ""): string {
  return info.split(/[\s{,]/, 1)[0] ?? "";
}

function codeBlock(text: string, info: string | undefined): HTMLElement {
  const language = languageOf(info);
  const code = h("code", {}, text);
  color(code, { language, texts: [[{ element: code, from: 0, text }]] });
  const now = () => code.textContent ?? "";
  return h(
    "div.code-block",
    { "data-language": language },
    h(
      "div.code-head",
      {},
      h("span", {}, language),
      copyButton(now),
      hasEditor &&
        h(
          "button.quiet",
          { title: "Insert at the cursor", onclick: () => run("host/insert", { text: now() }) },
          "Insert",
        ),
    ),
    h("pre", { tabindex: 0, role: "group", "aria-label": `${language} code`.trim() }, code),
  );
}

function copyButton(text: () => string): HTMLElement {
  const button = h("button.quiet", { onclick: () => void copy().catch(() => undefined) }, "Copy");
  const copy = async () => {
    await call("host/copy", { text: text() });
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = "Copy";
    }, COPIED_MS);
  };
  return button;
}

function list(token: Tokens.List): HTMLElement {
  const items = token.items.map((item) => {
    const mark = item.task ? `${item.checked ? "☑" : "☐"} ` : "";
    return h(item.task ? "li.task" : "li", {}, mark, ...item.tokens.filter(isShown).map(block));
  });
  return token.ordered
    ? h("ol", { dir: "auto", start: Number(token.start) || 1 }, ...items)
    : h("ul", { dir: "auto" }, ...items);
}

function table(token: Tokens.Table): HTMLElement {
  const align = (cell: Tokens.TableCell) => ({ "data-align": cell.align ?? undefined });
  const head = h(
    "tr",
    {},
    ...token.header.map((cell) => h("th", { scope: "col", ...align(cell) }, ...inline(cell.tokens))),
  );
  const rows = token.rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", align(cell), ...inline(cell.tokens)))));
  return h(
    "div.table",
    { tabindex: 0, role: "group", "aria-label": "table" },
    h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)),
  );
}
