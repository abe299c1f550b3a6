/** What one conversation shows: a fold over its events, on top of the snapshot of `conversation/open`. */

import type {
  Approval, ConversationInfo, DeltaParams, ErrorInfo, EventParams, FileChange, InputRequest, Item, ItemUpdated, LogRecord, MessageEdited, Notice, OpenResult, Option,
  QueuedMessage, ReviewedFile, SubagentItem, Turn, Usage,
} from "../src/protocol";

import { ENDING, ending } from "./endings";

/** What a turn did to files, shown when it rests. */
export interface ChangesItem { kind: "changes"; id: string; turnId: string; files: readonly FileChange[] }
export type Shown = Item | ChangesItem;
export interface Retry { attempt: number; maxAttempts: number; at: number; error: ErrorInfo; model?: string }

export class Store {
  info: ConversationInfo;
  options: readonly Option[];
  readonly items = new Map<string, Shown>();
  readonly pending = new Map<string, Approval | InputRequest>();
  readonly queue = new Map<string, QueuedMessage>();
  lastSeq: number;
  hasMore: boolean;
  retry: Retry | undefined;
  error: ErrorInfo | undefined;
  /** What each sub-agent has begun last. */
  private readonly doing = new Map<string, string>();
  readonly reviews = new Map<string, ReviewedFile>();
  /** Somebody reviewed, or a turn has changed files: `changes/list` says more than we know. */
  needsReviews = false;
  private readonly turnEnds = new Map<string, number>();
  private readonly turnFiles = new Map<string, readonly FileChange[]>();
  private readonly ended = new Map<string, Turn>();
  /** What the model thinks just now. */
  private thinking: string | undefined;
  /** Items that changed since `takeChanged`. */
  private changed = new Set<string>();

  constructor(opened: OpenResult) {
    this.info = opened.conversation;
    this.options = opened.options;
    this.lastSeq = opened.lastSeq;
    this.hasMore = opened.hasMore;
    this.prepend(opened.items ?? []);
    for (const each of opened.pending) this.pending.set(each.id, each);
    for (const each of opened.queue) this.queue.set(each.messageId, each);
  }

  get isBusy(): boolean {
    return ["running", "waiting", "pausing", "interrupting"].includes(this.info.status);
  }

  /** The id of the first item that the log knows. */
  get firstItem(): string | undefined {
    return [...this.items.values()].find((item) => item.kind !== "changes" && !item.id.startsWith("notice-"))?.id;
  }

  /** A running turn may edit what would be reverted. */
  get canReview(): boolean {
    return !this.isBusy && !this.isReadOnly;
  }

  /** The turn that changed the file last. */
  lastTurnOf(uri: string): string | undefined {
    return [...this.turnFiles].reverse().find(([, files]) => files.some((file) => file.uri === uri))?.[0];
  }

  setReviews(files: readonly ReviewedFile[]): void {
    const before = new Map(this.reviews);
    this.reviews.clear();
    for (const file of files) this.reviews.set(file.uri, file);
    const now = (uri: string) => this.reviews.get(uri)?.state;
    this.touchChanges((uri) => isWaiting(now(uri)) || before.get(uri)?.state !== now(uri));
  }

  /** Cards with such a file are drawn anew: a long conversation has hundreds. */
  private touchChanges(isTouched: (uri: string) => boolean): void {
    for (const item of this.items.values()) {
      if (item.kind === "changes" && item.files.some(({ uri }) => isTouched(uri))) this.changed.add(item.id);
    }
  }

  touchAll(): void {
    this.changed = new Set(this.items.keys());
  }

  /** What the turns of before changed, and when each came to rest. */
  readTurns(records: readonly LogRecord[]): void {
    for (const { turnId, ts, event } of withoutTakenBack(records)) {
      if (turnId === undefined) continue;
      if (event.type === "changes.updated") this.turnFiles.set(turnId, event.files);
      else if (event.type === "turn.resumed") this.turnEnds.delete(turnId);
      else this.turnEnds.set(turnId, Date.parse(ts));
      if (event.type === "turn.completed") this.ended.set(turnId, event.turn);
    }
    this.placeEnds();
  }

  /** What is typed now answers a question of the agent. */
  get isAsked(): boolean {
    return [...this.pending.values()].some((each) => "prompt" in each);
  }

  /** Another process works on it, and this one only follows. */
  get isReadOnly(): boolean {
    return !this.info.lock.mine;
  }

  takeChanged(): ReadonlySet<string> {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  /** Earlier items, in front of those that are there. */
  prepend(items: readonly Item[]): void {
    const later = new Map(this.items);
    this.items.clear();
    for (const item of [...items, ...later.values()]) this.items.set(item.id, item);
    this.placeEnds();
    for (const id of this.items.keys()) if (!later.has(id)) this.changed.add(id);
  }

  /** Behind the last item of its turn; a message that was taken in at the moment of its end begins the next one. */
  private placeEnds(): void {
    const items = [...this.items.values()].filter((item): item is Item => item.kind !== "changes" && !item.id.startsWith(ENDING));
    const ends = [...this.turnEnds];
    this.items.clear();
    let [time, next] = [0, 0];
    for (const item of items) {
      // A notice has no time of its own, and counts as old as what stands before it.
      time = Date.parse(item.endedAt ?? item.startedAt ?? "") || time;
      const since = item.kind === "userMessage" ? time + 1 : time;
      for (let end = ends[next]; end && end[1] < since; end = ends[++next]) this.placeEnd(end[0]);
      this.items.set(item.id, item);
    }
    for (const [turnId] of ends.slice(next)) this.placeEnd(turnId);
    this.needsReviews = this.turnFiles.size > 0;
  }

  /** A turn of which nothing is shown yet has no end to show. */
  private placeEnd(turnId: string): void {
    if (this.items.size === 0) return;
    for (const item of this.endItems(turnId)) this.items.set(item.id, item);
  }

  /** What stands at the end of a turn: why it ended, where that must be said, and what it changed. */
  private endItems(turnId: string): Shown[] {
    const [why, files] = [ending(this.ended.get(turnId), this.items), this.turnFiles.get(turnId)];
    return [...(why ? [why] : []), ...(files ? [{ kind: "changes" as const, id: `changes-${turnId}`, turnId, files }] : [])];
  }

  /** At the end while the turn rests, away while it goes on. */
  private showEnd(turnId: string | undefined, restsSince: string | undefined): void {
    if (turnId === undefined) return;
    this.turnEnds.delete(turnId);
    if (restsSince !== undefined) this.turnEnds.set(turnId, Date.parse(restsSince));
    for (const item of this.endItems(turnId)) {
      this.items.delete(item.id);
      if (restsSince !== undefined) this.items.set(item.id, item);
      this.changed.add(item.id);
    }
    this.needsReviews ||= this.turnFiles.has(turnId);
  }

  onChanged(info: ConversationInfo): void {
    if (info.lastSeq >= this.lastSeq) this.info = info;
  }

  onDelta({ itemId, channel, text }: DeltaParams): void {
    const item = this.items.get(itemId);
    if (!item) return;
    this.retry = undefined;
    this.changed.add(itemId);
    if ("text" in item && channel !== "output") {
      this.items.set(itemId, { ...item, text: item.text + text });
    } else if (item.kind === "command") {
      this.items.set(itemId, { ...item, content: [{ type: "text", text: (item.content[0]?.text ?? "") + text }] });
    }
  }

  /** False when the conversation must be opened again: a record is missing, or some no longer count. */
  onRecord(record: LogRecord & { epoch?: string }): boolean {
    if (record.seq <= this.lastSeq) return true;
    if (record.event.type === "conversation.rolledBack") return false;
    if (record.seq > this.lastSeq + 1 || (record.epoch && this.info.epoch && record.epoch !== this.info.epoch)) return false;
    this.lastSeq = record.seq;
    this.apply(record);
    return true;
  }

  /** What the log said last, if it is that. */
  showTrouble(record: LogRecord): void {
    if (["error.raised", "retry.scheduled"].includes(record.event.type)) this.apply(record);
  }

  private apply({ seq, ts, turnId, itemId, event }: LogRecord): void {
    switch (event.type) {
      case "item.started":
        this.endThought(event.item, ts);
        this.set(event.item);
        return;
      case "item.completed":
        this.set(event.item);
        return;
      case "item.updated":
        // What waited for the user has run only since then.
        this.update(itemId, event, event.status === "running" ? ts : undefined);
        return;
      case "status.changed": {
        const { statusReason: _, ...info } = this.info;
        this.info = { ...info, status: event.to, ...(event.reason && { statusReason: event.reason }) };
        this.touchChanges((uri) => isWaiting(this.reviews.get(uri)?.state));
        return;
      }
      case "approval.requested":
        this.pending.set(event.approval.id, event.approval);
        return;
      case "approval.resolved":
        this.pending.delete(event.approvalId);
        return;
      case "input.requested":
        this.pending.set(event.input.id, event.input);
        return;
      case "input.resolved":
        this.pending.delete(event.inputId);
        return;
      case "message.queued":
        this.queue.set(event.message.messageId, event.message);
        return;
      case "message.edited":
        this.editQueued(event);
        return;
      case "message.dequeued":
        this.queue.delete(event.messageId);
        return;
      case "options.changed":
        this.options = this.options.map((each) => ({ ...each, value: event.values[each.id] ?? each.value }));
        return;
      case "usage.updated":
        if (seq > this.info.lastSeq) this.info = { ...this.info, usage: sum(this.info.usage, event.usage) };
        // Calls beside the steps say nothing about the next one.
        if (event.purpose === undefined) this.info = { ...this.info, context: context(event.contextUsed, event.contextSize) };
        return;
      case "retry.scheduled":
        this.retry = { ...event, at: Date.parse(ts) + event.delayMs };
        return;
      case "error.raised":
        this.error = event.error;
        return;
      case "notice":
        this.notice(`notice-${seq}`, event);
        return;
      case "turn.started":
      case "turn.resumed":
        this.error = undefined;
        this.showEnd(turnId, undefined);
        return;
      case "turn.paused":
        this.retry = undefined;
        this.showEnd(turnId, ts);
        return;
      case "turn.completed":
        this.retry = undefined;
        this.ended.set(event.turn.id, event.turn);
        this.showEnd(turnId, ts);
        return;
      case "message.refused":
        // Why is told by a notice of the log.
        this.update(itemId, { type: "item.updated", status: "rejected" });
        return;
      case "changes.updated":
        if (turnId !== undefined) this.turnFiles.set(turnId, event.files);
        return;
      case "changes.reviewed":
        this.needsReviews = true;
        return;
      case "conversation.updated":
        this.info = { ...this.info, title: event.title ?? this.info.title };
    }
  }

  private set(item: Item): void {
    this.items.set(item.id, item);
    this.changed.add(item.id);
    this.retry = undefined;
  }

  /** The log ends it together with the answer; whoever looks on sees it end when the next thing begins. */
  private endThought({ id, kind }: Item, ts: string): void {
    const thought = this.thinking !== undefined && this.items.get(this.thinking);
    this.thinking = kind === "reasoning" ? id : undefined;
    if (thought && thought.kind === "reasoning" && thought.status === "running") this.set({ ...thought, status: "completed", endedAt: ts });
  }

  /** The sub-agent that asks, or none when the conversation itself does. */
  askedBy({ conversationId }: Approval): string | undefined {
    const item = this.subagent(conversationId);
    return item && `${item.agent}: ${item.title}`;
  }

  private subagent(conversationId: string): SubagentItem | undefined {
    return [...this.items.values()].find((item): item is SubagentItem => item.kind === "subagent" && item.conversationId === conversationId);
  }

  /** What a sub-agent of this conversation asks is asked here, and its card says what it does. */
  onOther({ conversationId, event }: EventParams): void {
    if (event.type === "approval.resolved") this.pending.delete(event.approvalId);
    const card = this.subagent(conversationId);
    if (!card) return;
    if (event.type === "approval.requested") this.pending.set(event.approval.id, event.approval);
    if (event.type !== "item.started" || !("title" in event.item)) return;
    this.doing.set(conversationId, event.item.title);
    this.changed.add(card.id);
  }

  /** Whoever has just opened the conversation knows of what waits only. */
  doingOf(conversationId: string): string | undefined {
    const asked = [...this.pending.values()].find((each) => each.conversationId === conversationId);
    return this.doing.get(conversationId) ?? (asked && "title" in asked ? asked.title : undefined);
  }

  /** The status moves; the rest comes when the user edited the action. */
  private update(itemId: string | undefined, { type: _, ...change }: ItemUpdated, startedAt?: string): void {
    const item = itemId === undefined ? undefined : this.items.get(itemId);
    if (!item || item.kind === "changes") return;
    this.items.set(item.id, { ...item, ...change, ...(startedAt !== undefined && { startedAt }) });
    this.changed.add(item.id);
  }

  /** Another text, place or delivery. */
  private editQueued({ message, position }: MessageEdited): void {
    this.queue.delete(message.messageId);
    const queue = [...this.queue.values()];
    queue.splice(position, 0, message);
    this.queue.clear();
    for (const each of queue) this.queue.set(each.messageId, each);
  }

  private notice(id: string, event: Omit<Notice, "type">): void {
    this.items.set(id, { ...event, id, kind: "notice", status: "completed" });
    this.changed.add(id);
  }
}

/** A conflict waits too: it cannot be reverted any more, but its hunks and the acceptance are still there. */
export function isWaiting(state: ReviewedFile["state"] | undefined): boolean {
  return state === "pending" || state === "conflict";
}

/** A rollback takes back what came after its place in the log. */
function withoutTakenBack(records: readonly LogRecord[]): readonly LogRecord[] {
  let kept: LogRecord[] = [];
  for (const record of records) {
    const { event } = record;
    if (event.type === "conversation.rolledBack") kept = kept.filter(({ seq }) => seq <= event.toSeq);
    else kept.push(record);
  }
  return kept;
}

function context(used = 0, size?: number): ConversationInfo["context"] {
  return size === undefined ? { used } : { used, size };
}

/** A sum has a known cost only when both parts have one. */
function sum(before: Usage | undefined, more: Usage): Usage {
  if (!before) return more;
  const amount = before.cost && more.cost && before.cost.amount + more.cost.amount;
  return {
    inputTokens: before.inputTokens + more.inputTokens,
    outputTokens: before.outputTokens + more.outputTokens,
    cacheReadTokens: before.cacheReadTokens + more.cacheReadTokens,
    cacheWriteTokens: before.cacheWriteTokens + more.cacheWriteTokens,
    reasoningTokens: before.reasoningTokens + more.reasoningTokens,
    requests: before.requests + more.requests,
    ...(amount !== undefined && { cost: { amount, currency: "USD" } }),
  };
}
