/** A pending edit, change by change: each can be left out before anything is written. */

import { changeWithout, type LeftOut, type Proposal, type Row, rowsOf } from "../src/proposal";
import type { FileChange } from "oh-daemon-client/protocol";
import { formatCount } from "../src/words";
import { CONTEXT_LINES, counts, diffLines, fileDiff, pathIn, hunkCard } from "./diff";
import { h } from "./dom";
import { run } from "./host";

export interface ProposalView {
  element: HTMLElement;
  show: (omitted: LeftOut) => void;
}

/** `onChoose` gets the index of the hunk to leave out, or to include again. */
export function proposalView(approvalId: string, proposal: Proposal, onChoose: (hunk: number) => void): ProposalView {
  let omitted: LeftOut = [];
  const tell = (method: "host/openProposal" | "host/changeProposal", change: FileChange) =>
    run(method, { approvalId, change: changeWithout(change, proposal, omitted) });
  const parts: Part[] = [];
  const files = proposal.changes.map((change) => {
    const mine = partsOf(change, proposal, onChoose);
    parts.push(...mine);
    const open = () => tell("host/openProposal", change);
    // A file without hunks, such as one that moves, is decided with the rest of the edit.
    return mine.length > 0
      ? fileDiff(
          change,
          open,
          mine.map(({ element }) => element),
        )
      : fileDiff(change, open);
  });
  const show = (chosen: LeftOut) => {
    omitted = chosen;
    for (const { hunk, title, element, toggle } of parts) {
      const isOut = omitted.includes(hunk);
      element.dataset.state = isOut ? "out" : "in";
      toggle.textContent = isOut ? "Take" : "Leave out";
      toggle.setAttribute("aria-label", `${toggle.textContent} ${title}`);
    }
    proposal.changes.forEach((change, n) => {
      const out = proposal.hunks.filter(({ uri }, hunk) => uri === change.uri && omitted.includes(hunk));
      const nOut = (side: "oldLines" | "newLines") => out.reduce((sum, hunk) => sum + hunk[side], 0);
      const left = counts(change.added - nOut("newLines"), change.removed - nOut("oldLines"));
      files[n]?.querySelector(".counts")?.replaceWith(left);
      tell("host/changeProposal", change);
    });
  };
  return { element: h("div.proposal", {}, ...files), show };
}

interface Part {
  hunk: number;
  title: string;
  element: HTMLElement;
  toggle: HTMLElement;
}

function partsOf(change: FileChange, { hunks }: Proposal, onChoose: (hunk: number) => void): Part[] {
  const rows = rowsOf(change, hunks);
  return hunks.flatMap((each, hunk) => {
    if (each.uri !== change.uri) return [];
    const title = `change ${hunk + 1} of ${hunks.length} in ${pathIn(change.uri)}`;
    const toggle = h("button.quiet", { onclick: () => onChoose(hunk) });
    const lines = around(rows, hunk);
    const head = [h("span", {}, `Line ${each.oldStart + 1}`, h("span.out", {}, ", left out")), toggle];
    // A diff that was truncated for its size does not have these lines.
    const body =
      lines.length > 0
        ? diffLines(title, change.uri, lines, each)
        : h("p.note", {}, `${formatCount(each.newLines, "line")} instead of ${each.oldLines}; too long to be shown`);
    const element = hunkCard(title, head, body);
    return [{ hunk, title, element, toggle }];
  });
}

/** The lines of a hunk with a few lines of context, as in the review. */
function around(rows: readonly Row[], hunk: number): string[] {
  const first = rows.findIndex((row) => row.hunk === hunk);
  if (first < 0) return [];
  const end = rows.findLastIndex((row) => row.hunk === hunk) + 1;
  const isContext = (row: Row | undefined) => row?.sign === " ";
  let [from, to] = [first, end];
  while (from > first - CONTEXT_LINES && isContext(rows[from - 1])) from--;
  while (to < end + CONTEXT_LINES && isContext(rows[to])) to++;
  return rows.slice(from, to).map(({ line }) => line);
}
