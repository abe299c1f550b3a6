/** What one conversation shows: a fold over its events, on top of the snapshot of `conversation/open`. */

import type {
  Approval, ConversationInfo, DeltaParams, ErrorInfo, Item, LogRecord, Notice, OpenResult, Option, QueuedMessage, Usage,
} from "../src/protocol";

export interface Retry { attempt: number; maxAttempts: number; at: number; error: ErrorInfo }

export class Store {
  info: ConversationInfo;
  options: readonly Option[];
  readonly items = new Map<string, Item>();
  readonly pending = new Map<string, Approval>();
  readonly queue = new Map<string, QueuedMessage>();
  lastSeq: number;
  hasMore: boolean;
  retry: Retry | undefined;
  error: ErrorInfo | undefined;
  /** Items that changed since `takeChanged`. */
  private changed = new Set<string>();

  constructor(opened: OpenResult, readonly isReadOnly = false) {
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

  takeChanged(): ReadonlySet<string> {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  /** Earlier items, in front of those that are there. */
  prepend(items: readonly Item[]): void {
    const later = [...this.items.values()];
    this.items.clear();
    for (const item of [...items, ...later]) this.items.set(item.id, item);
    for (const item of items) this.changed.add(item.id);
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

  /** False when a record is missing before this one, so that the conversation must be opened again. */
  onRecord(record: LogRecord & { epoch?: string }): boolean {
    if (record.seq <= this.lastSeq) return true;
    if (record.seq > this.lastSeq + 1 || (record.epoch && this.info.epoch && record.epoch !== this.info.epoch)) return false;
    this.lastSeq = record.seq;
    this.apply(record);
    return true;
  }

  private apply({ seq, ts, itemId, event }: LogRecord): void {
    switch (event.type) {
      case "item.started":
      case "item.completed":
        this.items.set(event.item.id, event.item);
        this.changed.add(event.item.id);
        this.retry = undefined;
        return;
      case "item.updated":
        this.setStatus(itemId, event.status);
        return;
      case "status.changed": {
        const { statusReason: _, ...info } = this.info;
        this.info = { ...info, status: event.to, ...(event.reason && { statusReason: event.reason }) };
        return;
      }
      case "approval.requested":
        this.pending.set(event.approval.id, event.approval);
        return;
      case "approval.resolved":
        this.pending.delete(event.approvalId);
        return;
      case "message.queued":
        this.queue.set(event.message.messageId, event.message);
        return;
      case "message.dequeued":
        this.queue.delete(event.messageId);
        return;
      case "options.changed":
        this.options = this.options.map((each) => ({ ...each, value: event.values[each.id] ?? each.value }));
        return;
      case "usage.updated":
        if (seq > this.info.lastSeq) this.info = { ...this.info, usage: sum(this.info.usage, event.usage) };
        this.info = { ...this.info, context: context(event.contextUsed, event.contextSize) };
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
        return;
      case "turn.completed":
        this.retry = undefined;
        return;
      case "conversation.updated":
        this.info = { ...this.info, title: event.title ?? this.info.title };
    }
  }

  private setStatus(itemId: string | undefined, status: Item["status"]): void {
    const item = itemId === undefined ? undefined : this.items.get(itemId);
    if (!item) return;
    this.items.set(item.id, { ...item, status });
    this.changed.add(item.id);
  }

  private notice(id: string, event: Notice): void {
    this.items.set(id, { ...event, id, kind: "notice", status: "completed" });
    this.changed.add(id);
  }
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
