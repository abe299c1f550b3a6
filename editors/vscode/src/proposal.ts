/** The user's choice in a pending edit: any of its hunks can be left out before it is written. */

import type { Approval, ApprovalOption, FileChange, NamedHunk, Subject } from "oh-daemon-client/protocol";

/** The indexes of the hunks that are left out. */
export type LeftOut = readonly number[];

/** A line of a patch, and the hunk that it belongs to; context lines and headers belong to none. */
export interface Row {
  line: string;
  sign: "" | " " | "-" | "+";
  hunk?: number | undefined;
}

export interface Proposal {
  changes: readonly FileChange[];
  hunks: readonly NamedHunk[];
}

/** Returns undefined when the edit can only be decided as a whole. */
export function proposalOf({ editable, subject }: Approval): Proposal | undefined {
  if (!editable || subject.kind !== "fileChange" || !subject.hunks) return undefined;
  return { changes: subject.changes, hunks: subject.hunks };
}

export function toggled(omitted: LeftOut, hunk: number): LeftOut {
  return omitted.includes(hunk) ? omitted.filter((each) => each !== hunk) : [...omitted, hunk];
}

/** Returns for instance "2 of 3 changes", or undefined when none is left out. */
export function countWords(proposal: Proposal | undefined, omitted: LeftOut): string | undefined {
  if (!proposal || omitted.length === 0) return undefined;
  const n = proposal.hunks.length;
  return `${n - omitted.length} of ${n} changes`;
}

/** With changes left out, an edit can be allowed only once, and only if at least one change remains. */
export function canAnswer(
  { effect, scope }: ApprovalOption,
  proposal: Proposal | undefined,
  omitted: LeftOut,
): boolean {
  const isWhole = !proposal || omitted.length === 0;
  return effect === "reject" || isWhole || (scope === "once" && omitted.length < proposal.hunks.length);
}

/** Returns the subject without the hunks that are left out, or undefined when none is. */
export function editedSubject(approval: Approval, omitted: LeftOut): Subject | undefined {
  const { subject } = approval;
  const proposal = proposalOf(approval);
  if (omitted.length === 0 || !proposal || subject.kind !== "fileChange") return undefined;
  return { ...subject, hunks: proposal.hunks.filter((_, i) => !omitted.includes(i)) };
}

/** Returns the change of one file without the hunks that are left out: their old lines stay. */
export function changeWithout(change: FileChange, { hunks }: Proposal, omitted: LeftOut): FileChange {
  const isOut = ({ hunk }: Row) => hunk !== undefined && omitted.includes(hunk);
  const kept = rowsOf(change, hunks).filter((row) => row.sign !== "+" || !isOut(row));
  const lines = kept.map((row) => (isOut(row) ? row.line.replace(/^-/, " ") : row.line));
  return { ...change, patch: lines.join("\n") };
}

/** Splits a patch into rows. Hunks count lines from 0, the headers of a patch from 1. */
export function rowsOf(change: FileChange, hunks: Proposal["hunks"]): Row[] {
  const rows: Row[] = [];
  let [old, now] = [-1, -1];
  const hunkAt = (side: "old" | "new", line: number) => {
    const found = hunks.findIndex((hunk) => {
      const start = hunk[`${side}Start`];
      return hunk.uri === change.uri && line >= start && line < start + hunk[`${side}Lines`];
    });
    return found < 0 ? undefined : found;
  };
  for (const line of (change.patch ?? "").replace(/\n$/, "").split("\n")) {
    const head = /^@@ -(\d+)(,0)?\S* \+(\d+)(,0)?/.exec(line);
    const last = rows.at(-1);
    if (head) [old, now] = [startOf(head[1], head[2]), startOf(head[3], head[4])];
    if (head || old < 0) rows.push({ line, sign: "" });
    // Git's marker for a missing newline at the end of a file applies to the line above it.
    else if (line.startsWith("\\") && last) rows.push({ ...last, line });
    else if (line.startsWith("-")) rows.push({ line, sign: "-", hunk: hunkAt("old", old++) });
    else if (line.startsWith("+")) rows.push({ line, sign: "+", hunk: hunkAt("new", now++) });
    else {
      rows.push({ line, sign: " " });
      [old, now] = [old + 1, now + 1];
    }
  }
  return rows;
}

function startOf(line: string | undefined, isEmpty: string | undefined): number {
  return Number(line) - (isEmpty === undefined ? 1 : 0);
}
