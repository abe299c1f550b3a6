/** A unified diff as rows: number, sign, text, and the file that they belong to. */

import { diffWordsWithSpace } from "diff";
import type { ChangesDiffResult, FileChange, Hunk } from "oh-daemon-client/protocol";
import { decoded } from "../src/words";
import { color, type Piece } from "./colors";
import { h } from "./dom";
import { hasEditor, run } from "./host";
import { wrap } from "./spans";

export const CONTEXT_LINES = 2;
const END_CHARS = 24;
/** The names of the file, above the first hunk; below it, such a line is a change. */
const HEAD = /^(---|\+\+\+) /;
/** Where more words are different, marking them would only be noise. */
const MAX_DIFFERENT = 0.7;
const MAX_WORD_EDITS = 200;

/** `onOpen` opens the change in the editor's own diff. */
export function fileDiff(
  change: FileChange,
  onOpen: () => void,
  body: readonly HTMLElement[] = [diffRows(change)],
): HTMLElement {
  const name = pathIn(change.uri);
  return h(
    "div.diff",
    {},
    h(
      "div.diff-head",
      {},
      h("span.name", {}, fileLink(change.uri, middleCut(name))),
      fate(change),
      ...facts(change, onOpen),
    ),
    ...body,
  );
}

/** A badge for a file that was moved, created or deleted. */
function fate({ op, patch }: FileChange): HTMLElement | undefined {
  const word = isMove(patch) ? "moved" : op === "add" ? "new" : op === "delete" ? "deleted" : undefined;
  return word === undefined ? undefined : h("span.badge", {}, word);
}

function isMove(patch: string | undefined): boolean {
  return patch?.startsWith("rename from ") ?? false;
}

/** Shown after a file's name: the line counts, whether it is saved, and a button for the editor's diff. */
export function facts(change: FileChange, onOpen: () => void): HTMLElement[] {
  const { added, removed, patch, op, unsaved } = change;
  const found = [counts(added, removed)];
  if (unsaved === true)
    found.push(h("span.badge", { title: "The change is in the editor and not on disk yet." }, "unsaved"));
  // The patch of a moved file is between two names, so it fits the text of neither.
  if (!hasEditor || patch === undefined || op === "delete" || isMove(patch)) return found;
  return [
    ...found,
    h(
      "button.quiet.open-diff",
      { "aria-label": "Open diff", title: "Open the diff in the editor", onclick: onOpen },
      "Diff",
    ),
  ];
}

export function counts(added: number, removed: number): HTMLElement {
  return h("span.counts", {}, h("span.added", {}, `+${added}`), " ", h("span.removed", {}, `−${removed}`));
}

export function diffRows(change: FileChange): HTMLElement {
  const lines = (change.patch ?? "").replace(/\n$/, "").split("\n");
  const first = lines.findIndex((line) => line.startsWith("@@ "));
  const shown = lines.filter((line, n) => n >= first || !HEAD.test(line));
  return diffLines(`Changes of ${fileName(change.uri)}`, change.uri, shown);
}

/** A row of a diff, which is in a block of removed and added lines, or between two blocks. */
interface Row {
  sign: string;
  text: string;
  element: HTMLElement;
}

/** Lines of a diff with their numbers, each after its sign. Without a header, they begin as `hunk` does. */
export function diffLines(
  label: string,
  uri: string,
  lines: readonly string[],
  hunk: Pick<Hunk, "oldStart" | "newStart"> = { oldStart: 0, newStart: 0 },
): HTMLElement {
  const nBefore = Math.max(
    0,
    lines.findIndex((line) => !line.startsWith(" ")),
  );
  let [old, now] = [hunk.oldStart + 1 - nBefore, hunk.newStart + 1 - nBefore];
  const rows: Row[] = [];
  for (const line of lines) {
    const head = /^@@ -(\d+)\S* \+(\d+)/.exec(line);
    if (head) {
      [old, now] = [Number(head[1]), Number(head[2])];
      if (rows.length > 0) rows.push({ sign: "@", text: "", element: h("span.hunk", {}, "⋯\n") });
      continue;
    }
    const sign = line.slice(0, 1);
    const kind = sign === "+" ? "span.add" : sign === "-" ? "span.del" : "span.same";
    // Git's marker for a missing newline is no line, nor are the names of a file that moves.
    const isLine = "+- ".includes(sign);
    const number = isLine ? (sign === "-" ? old : now) : undefined;
    rows.push({ sign, text: line.slice(1), element: h(kind, { "data-line": number }, `${line}\n`) });
    if (isLine && sign !== "+") old++;
    if (isLine && sign !== "-") now++;
  }
  markWords(rows);
  const element = h("pre.rows", { tabindex: 0, role: "group", "aria-label": label }, ...rows.map((row) => row.element));
  element.style.setProperty("--digits", String(String(Math.max(old, now)).length));
  color(element, { fileName: fileName(uri), texts: [side(rows, "-"), side(rows, "+")] });
  return element;
}

/** The old or the new text; the lines that both have are coloured as the new one's. */
function side(rows: readonly Row[], sign: "+" | "-"): Piece[] {
  const mine = rows.filter((row) => row.sign === sign || row.sign === " ");
  return mine.map(({ element, text, sign: own }) => ({
    element,
    from: 1,
    text,
    isOnlyRead: own !== sign && sign === "-",
  }));
}

/** Marks what is different in each block of removed and added lines. */
function markWords(rows: readonly Row[]): void {
  let from = 0;
  while (from < rows.length) {
    const block = (sign: string, start: number) => {
      let end = start;
      while (rows[end]?.sign === sign) end++;
      return rows.slice(start, end);
    };
    const removed = block("-", from);
    const added = block("+", from + removed.length);
    if (removed.length > 0 && added.length > 0) markBlock(removed, added);
    from += removed.length + added.length || 1;
  }
}

function markBlock(removed: readonly Row[], added: readonly Row[]): void {
  const textOf = (rows: readonly Row[]) => rows.map(({ text }) => text).join("\n");
  const [old, now] = [textOf(removed), textOf(added)];
  const parts = diffWordsWithSpace(old, now, { maxEditLength: MAX_WORD_EDITS }) ?? [];
  const nDifferent = parts.reduce((sum, part) => sum + (part.added || part.removed ? part.value.length : 0), 0);
  if (nDifferent > MAX_DIFFERENT * (old.length + now.length)) return;
  markRows(
    removed,
    parts.filter((part) => !part.added),
  );
  markRows(
    added,
    parts.filter((part) => !part.removed),
  );
}

/** The parts are the rows' whole text, one after the other. */
function markRows(rows: readonly Row[], parts: readonly { value: string; added: boolean; removed: boolean }[]): void {
  const marks: { from: number; to: number }[] = [];
  let at = 0;
  for (const { value, added, removed } of parts) {
    if (added || removed) marks.push({ from: at, to: at + value.length });
    at += value.length;
  }
  let start = 0;
  for (const { element, text } of rows) {
    const end = start + text.length;
    const mine = marks.flatMap(({ from, to }) => {
      const [begin, stop] = [Math.max(from, start), Math.min(to, end)];
      return begin < stop ? [{ from: begin - start + 1, to: stop - start + 1, make: () => h("span.word") }] : [];
    });
    wrap(element, mine);
    start = end + 1;
  }
}

export function fileLink(uri: string, label: string | readonly HTMLElement[]): HTMLElement {
  const parts = typeof label === "string" ? [label] : label;
  if (!hasEditor) return h("span", { title: uri }, ...parts);
  return h("button.link", { title: uri, onclick: () => run("host/openFile", { uri }) }, ...parts);
}

/** Where there is no room, its middle is left out: the end tells files apart, the beginning says where they are. */
export function middleCut(text: string): HTMLElement[] {
  const at = Math.max(0, text.length - END_CHARS);
  return [h("span.cut", {}, h("span.from", {}, text.slice(0, at)), h("span.to", {}, text.slice(at)))];
}

/** The lines of one hunk with a few lines of context. */
export function hunkLines({ oldText = "", newText = "" }: ChangesDiffResult, hunk: Hunk): string[] {
  const [old, now] = [linesOf(oldText), linesOf(newText)];
  const end = hunk.newStart + hunk.newLines;
  const signed = (sign: string, lines: readonly string[]) => lines.map((line) => sign + line);
  return [
    ...signed(" ", now.slice(Math.max(0, hunk.newStart - CONTEXT_LINES), hunk.newStart)),
    ...signed("-", old.slice(hunk.oldStart, hunk.oldStart + hunk.oldLines)),
    ...signed("+", now.slice(hunk.newStart, end)),
    ...signed(" ", now.slice(end, end + CONTEXT_LINES)),
  ];
}

/** One of several hunks that are decided one by one: where it begins, its buttons, and its lines. */
export function hunkCard(title: string, head: readonly HTMLElement[], body: HTMLElement): HTMLElement {
  return h("div.one-hunk", { role: "group", "aria-label": title }, h("div.hunk-head", {}, ...head), body);
}

function linesOf(text: string): string[] {
  return text.replace(/\n$/, "").split("\n");
}

/** The folders of the conversation that is shown: paths in them begin there. */
let folders: readonly string[] = [];

export function showPathsFrom(roots: readonly string[]): void {
  folders = roots;
}

/** Returns the readable path of a file, from the conversation's folder on if it is in there. */
export function pathIn(uri: string): string {
  const root = folders.find((folder) => uri.startsWith(`${folder}/`));
  return root === undefined ? filePath(uri) : decoded(uri.slice(root.length + 1));
}

export function filePath(uri: string): string {
  return decoded(uri.replace(/^file:\/\//, ""));
}

export function fileName(uri: string): string {
  return decoded(uri.split("/").at(-1) ?? uri);
}
