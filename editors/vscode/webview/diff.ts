/** A unified diff as rows: sign, text, and the file that they belong to. */

import type { ChangesDiffResult, FileChange, Hunk } from "../src/protocol";
import { decoded } from "../src/words";
import { h } from "./dom";
import { run } from "./host";

export const CONTEXT_LINES = 2;
const END_CHARS = 24;
/** Headers of the file, and of a hunk that is the whole of a new or deleted file. */
const HEAD = /^(---|\+\+\+) |^@@ .*[-+]0,0 /;

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
  if (patch === undefined || op === "delete" || isMove(patch)) return found;
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
  return diffLines(
    `Changes of ${fileName(change.uri)}`,
    lines.filter((line) => !HEAD.test(line)),
  );
}

/** Lines of a diff, each after its sign; the header of a hunk says only where it begins. */
export function diffLines(label: string, lines: readonly string[]): HTMLElement {
  const rows = lines.map((line) => {
    if (line.startsWith("@@")) return h("span.hunk", {}, `${line.replace(/^@@ -\S+ \+(\d+)\S* @@.*/, "line $1")}\n`);
    const kind = line.startsWith("+") ? "span.add" : line.startsWith("-") ? "span.del" : "span.same";
    return h(kind, {}, `${line}\n`);
  });
  return h("pre.rows", { tabindex: 0, role: "group", "aria-label": label }, ...rows);
}

export function fileLink(uri: string, label: string | readonly HTMLElement[]): HTMLElement {
  const parts = typeof label === "string" ? [label] : label;
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
