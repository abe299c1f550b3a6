/** A unified diff as rows: sign, text, and the file that they belong to. */

import type { FileChange } from "../src/protocol";
import { h } from "./dom";
import { call } from "./host";

export function fileDiff(change: FileChange, isDone: boolean): HTMLElement {
  const name = fileName(change.uri);
  return h("div.diff", {},
    h("div.diff-head", {},
      h("button.link.name", { title: change.uri, onclick: () => void call("host/openFile", { uri: change.uri }).catch(() => undefined) }, name),
      h("span.added", {}, `+${change.added}`),
      h("span.removed", {}, `−${change.removed}`),
      change.unsaved === true && h("span.badge", { title: "The change is in the editor and not on disk yet." }, "unsaved"),
      change.patch !== undefined && change.op !== "delete"
        && h("button.quiet", { onclick: () => void call("host/openDiff", { change, isDone }) }, "Open diff")),
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

export function fileName(uri: string): string {
  return decodeURIComponent(uri.split("/").at(-1) ?? uri);
}
