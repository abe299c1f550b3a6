/** A unified diff as rows: sign, text, and the file that they belong to. */

import type { ChangesDiffResult, FileChange, Hunk } from "../src/protocol";
import { h } from "./dom";
import { call } from "./host";

const CONTEXT_LINES = 2;

/** `onOpen` opens the change in the editor's own diff. */
export function fileDiff(change: FileChange, onOpen: () => Promise<unknown>): HTMLElement {
  const name = fileName(change.uri);
  return h("div.diff", {},
    h("div.diff-head", {},
      h("button.link.name", { title: change.uri, onclick: () => void call("host/openFile", { uri: change.uri }).catch(() => undefined) }, name),
      h("span.added", {}, `+${change.added}`),
      h("span.removed", {}, `−${change.removed}`),
      change.unsaved === true && h("span.badge", { title: "The change is in the editor and not on disk yet." }, "unsaved"),
      change.patch !== undefined && change.op !== "delete"
        && h("button.quiet", { onclick: () => void onOpen().catch(() => undefined) }, "Open diff")),
    h("pre.rows", { tabindex: 0, role: "group", "aria-label": `Changes of ${name}` }, ...rows(change.patch ?? "")));
}

function rows(patch: string): HTMLElement[] {
  const lines = patch.replace(/\n$/, "").split("\n").filter((line) => !/^(---|\+\+\+) /.test(line));
  return lines.map((line) => {
    if (line.startsWith("@@")) return h("span.hunk", {}, `${line.replace(/^@@ -\S+ \+(\d+)\S* @@.*/, "line $1")}\n`);
    const kind = line.startsWith("+") ? "span.add" : line.startsWith("-") ? "span.del" : "span.same";
    return h(kind, {}, `${line}\n`);
  });
}

/** One change with a little of what is around it. */
export function hunkRows({ oldText = "", newText = "" }: ChangesDiffResult, hunk: Hunk): HTMLElement[] {
  const [old, now] = [oldText.split("\n"), newText.split("\n")];
  const end = hunk.newStart + hunk.newLines;
  const rowsOf = (kind: "same" | "del" | "add", sign: string, lines: readonly string[]) =>
    lines.map((line) => h(`span.${kind}`, {}, `${sign}${line}\n`));
  return [
    ...rowsOf("same", " ", now.slice(Math.max(0, hunk.newStart - CONTEXT_LINES), hunk.newStart)),
    ...rowsOf("del", "-", old.slice(hunk.oldStart, hunk.oldStart + hunk.oldLines)),
    ...rowsOf("add", "+", now.slice(hunk.newStart, end)),
    ...rowsOf("same", " ", now.slice(end, end + CONTEXT_LINES)),
  ];
}

/** The folder of a file as people write it, inside the conversation's folder. */
export function fileParent(uri: string, folders: readonly string[]): string {
  const root = folders.find((folder) => uri.startsWith(`${folder}/`));
  const path = root === undefined ? uri.replace(/^file:\/\//, "") : uri.slice(root.length + 1);
  return decodeURIComponent(path.split("/").slice(0, -1).join("/"));
}

export function fileName(uri: string): string {
  return decodeURIComponent(uri.split("/").at(-1) ?? uri);
}
