/** The turns of a conversation: when each came to rest, why it ended, what it changed, and where that is shown. */

import type { FileChange, Item, LogRecord, StopReason, Turn, UserMessageItem } from "./protocol.js";

/** The files that a turn changed, shown when the turn rests. */
export interface ChangesItem {
  kind: "changes";
  id: string;
  turnId: string;
  files: readonly FileChange[];
}
/** Why a turn ended, if that must be said. */
export interface Ending {
  kind: "ending";
  id: string;
  turn: Turn;
  reason: UnusualEnd;
}
/** Of the others, the last answer or an error says so itself. */
export type UnusualEnd = Exclude<StopReason, "endTurn" | "finished" | "needsInput" | "error">;
export type Shown = Item | ChangesItem | Ending;

export class Turns {
  /** In milliseconds, in the order in which they came to rest. */
  private readonly restingSince = new Map<string, number>();
  private readonly files = new Map<string, readonly FileChange[]>();
  private readonly completed = new Map<string, Turn>();

  get haveChanged(): boolean {
    return this.files.size > 0;
  }

  /** The turn that changed the file last. */
  lastOf(uri: string): string | undefined {
    return [...this.files].reverse().find(([, files]) => files.some((file) => file.uri === uri))?.[0];
  }

  /** Reads what earlier turns changed, and when each came to rest. */
  read(records: readonly LogRecord[]): void {
    for (const { turnId, ts, event } of withoutTakenBack(records)) {
      if (turnId === undefined) continue;
      if (event.type === "changes.updated") this.change(turnId, event.files);
      else this.rest(turnId, event.type === "turn.resumed" ? undefined : ts);
      if (event.type === "turn.completed") this.complete(event.turn);
    }
  }

  change(turnId: string, files: readonly FileChange[]): void {
    if (files.length) this.files.set(turnId, files);
    else this.files.delete(turnId);
  }

  complete(turn: Turn): void {
    this.completed.set(turn.id, turn);
  }

  /** Notes that the turn rests since then, or that it goes on. */
  rest(turnId: string, since: string | undefined): void {
    this.restingSince.delete(turnId);
    if (since !== undefined) this.restingSince.set(turnId, Date.parse(since));
  }

  /** The end of a turn: why it ended, if that must be said, and what it changed. */
  endOf(turnId: string, before: ReadonlyMap<string, Shown>): (ChangesItem | Ending)[] {
    const [why, files] = [ending(this.completed.get(turnId), before), this.files.get(turnId)];
    return [
      ...(why ? [why] : []),
      ...(files ? [{ kind: "changes" as const, id: `changes-${turnId}`, turnId, files }] : []),
    ];
  }

  /** Puts each turn's end behind its last item. A message taken in at the moment of the end begins the next turn. */
  withEnds(items: readonly Item[]): Map<string, Shown> {
    const placed = new Map<string, Shown>();
    const place = (turnId: string) => {
      // None of the items of earlier turns is shown yet.
      if (placed.size === 0) return;
      for (const end of this.endOf(turnId, placed)) placed.set(end.id, end);
    };
    const ends = [...this.restingSince];
    let [time, next] = [0, 0];
    for (const item of items) {
      // A notice has no time of its own; it gets the time of the item before it.
      time = Date.parse(item.endedAt ?? item.startedAt ?? "") || time;
      const since = item.kind === "userMessage" ? time + 1 : time;
      for (let end = ends[next]; end && end[1] < since; end = ends[++next]) place(end[0]);
      placed.set(item.id, item);
    }
    for (const [turnId] of ends.slice(next)) place(turnId);
    return placed;
  }
}

/** Whether it is the end of a turn, which is no item of the log. */
export function isEnd(item: Shown): item is ChangesItem | Ending {
  return item.kind === "changes" || item.kind === "ending";
}

/** Returns the records without those that a rollback took back. */
function withoutTakenBack(records: readonly LogRecord[]): readonly LogRecord[] {
  let kept: LogRecord[] = [];
  for (const record of records) {
    const { event } = record;
    if (event.type === "conversation.rolledBack") kept = kept.filter(({ seq }) => seq <= event.toSeq);
    else kept.push(record);
  }
  return kept;
}

function ending(turn: Turn | undefined, before: ReadonlyMap<string, Shown>): Ending | undefined {
  const reason = turn?.stopReason;
  if (!turn || !reason || reason === "endTurn" || reason === "finished") return undefined;
  if (reason === "needsInput" || reason === "error" || isOfRefusal(turn, before)) return undefined;
  return { kind: "ending", id: `end-${turn.id}`, turn, reason };
}

/** Whether a hook refused the message that began the turn; a notice of the log already says why. */
function isOfRefusal({ stopReason }: Turn, before: ReadonlyMap<string, Shown>): boolean {
  return (
    stopReason === "hook" &&
    [...before.values()].findLast((item): item is UserMessageItem => item.kind === "userMessage")?.status === "rejected"
  );
}
