/** The state of one conversation: a fold over its events, on top of the snapshot of `conversation/open`. */

import type {
  Approval,
  ConversationInfo,
  DeltaParams,
  ErrorInfo,
  EventParams,
  InputRequest,
  Item,
  ItemUpdated,
  LogRecord,
  MessageEdited,
  Notice,
  Notifications,
  OpenResult,
  Option,
  PlanItem,
  QueuedMessage,
  ReviewedFile,
  SubagentItem,
  Usage,
} from "./protocol.js";

import { isEnd, type Shown, Turns } from "./turns.js";

export type Notification = { [M in keyof Notifications]: { method: M; params: Notifications[M] } }[keyof Notifications];

export interface Retry {
  attempt: number;
  maxAttempts: number;
  at: number;
  error: ErrorInfo;
  model?: string;
}

export class Store {
  info: ConversationInfo;
  options: readonly Option[];
  items = new Map<string, Shown>();
  readonly pending = new Map<string, Approval | InputRequest>();
  readonly queue = new Map<string, QueuedMessage>();
  lastSeq: number;
  hasMore: boolean;
  retry: Retry | undefined;
  error: ErrorInfo | undefined;
  /** The latest action of each sub-agent. */
  private readonly doing = new Map<string, string>();
  readonly reviews = new Map<string, ReviewedFile>();
  /** Changes were reviewed, or a turn has changed files: `changes/list` must be read again. */
  needsReviews = false;
  readonly turns = new Turns();
  /** The agent's last plan. One that is done, or that a whole turn has left alone, goes with the user's next message. */
  plan: PlanItem | undefined;
  /** The one before all that was read, as far as it still holds. */
  private readonly planBefore: PlanItem | undefined;
  /** What came since its last update: a message of the user, and behind it an answer. */
  private sincePlan: "nothing" | "message" | "answer" = "nothing";
  /** The id of the item with the model's current thinking. */
  private thinking: string | undefined;
  /** Items that changed since `takeChanged`. */
  private changed = new Set<string>();

  constructor(opened: OpenResult) {
    this.info = opened.conversation;
    this.options = opened.options;
    this.lastSeq = opened.lastSeq;
    this.hasMore = opened.hasMore;
    this.planBefore = opened.plan;
    this.prepend(opened.items ?? []);
    for (const each of opened.pending) this.pending.set(each.id, each);
    for (const each of opened.queue) this.queue.set(each.messageId, each);
    const title = "The log of this conversation";
    for (const [n, description] of opened.repaired.entries())
      this.notice(`notice-log-${n}`, { severity: "warning", title, description });
  }

  get isBusy(): boolean {
    return ["running", "waiting", "pausing", "interrupting"].includes(this.info.status);
  }

  /** The id of the first item that the log knows. */
  get firstItem(): string | undefined {
    return [...this.items.values()].find((item) => !isEnd(item) && !item.id.startsWith("notice-"))?.id;
  }

  /** False while a turn runs: it may edit what would be reverted. */
  get canReview(): boolean {
    return !this.isBusy && !this.isReadOnly;
  }

  setReviews(files: readonly ReviewedFile[]): void {
    const before = new Map(this.reviews);
    this.reviews.clear();
    for (const file of files) this.reviews.set(file.uri, file);
    const now = (uri: string) => this.reviews.get(uri)?.state;
    this.touchChanges((uri) => isWaiting(now(uri)) || before.get(uri)?.state !== now(uri));
  }

  /** Redraws only the cards that contain such a file: a long conversation has hundreds of cards. */
  private touchChanges(isTouched: (uri: string) => boolean): void {
    for (const item of this.items.values()) {
      if (item.kind === "changes" && item.files.some(({ uri }) => isTouched(uri))) this.changed.add(item.id);
    }
  }

  touchAll(): void {
    this.changed = new Set(this.items.keys());
  }

  /** The agent has asked a question, so the next message answers it. */
  get isAsked(): boolean {
    return [...this.pending.values()].some((each) => "prompt" in each);
  }

  /** Another process runs the conversation, and this one only follows. */
  get isReadOnly(): boolean {
    return !this.info.lock.mine;
  }

  takeChanged(): ReadonlySet<string> {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  /** Adds earlier items in front of the existing ones. */
  prepend(items: readonly Item[]): void {
    const later = new Map(this.items);
    this.items.clear();
    this.plan = undefined;
    this.sincePlan = "nothing";
    if (this.planBefore) this.notePlan(this.planBefore);
    for (const item of [...items, ...later.values()]) {
      this.items.set(item.id, item);
      this.notePlan(item);
    }
    this.placeEnds();
    for (const id of this.items.keys()) if (!later.has(id)) this.changed.add(id);
  }

  /** Reads what earlier turns changed, and when each came to rest. */
  readTurns(records: readonly LogRecord[]): void {
    this.turns.read(records);
    this.placeEnds();
  }

  private placeEnds(): void {
    this.items = this.turns.withEnds([...this.items.values()].filter((item) => !isEnd(item)));
    this.needsReviews = this.turns.haveChanged || this.info.isolated !== undefined;
  }

  /** Shows the end of a turn while it rests, and removes it when the turn goes on. */
  private showEnd(turnId: string | undefined, restsSince: string | undefined): void {
    if (turnId === undefined) return;
    this.turns.rest(turnId, restsSince);
    for (const item of this.turns.endOf(turnId, this.items)) {
      this.items.delete(item.id);
      if (restsSince !== undefined) this.items.set(item.id, item);
      this.changed.add(item.id);
      this.needsReviews ||= item.kind === "changes";
    }
  }

  /** Takes in what the daemon tells. Returns false when the conversation must be opened again. */
  take({ method, params }: Notification): boolean {
    switch (method) {
      case "conversation/changed": {
        if (params.conversation.id !== this.info.id) return true;
        const wasReadOnly = this.isReadOnly;
        this.onChanged(params.conversation);
        // The process that held the conversation may be gone, so it can be taken over.
        const { mine, pid } = params.conversation.lock;
        return !(wasReadOnly && (mine || pid === undefined));
      }
      case "conversation/event":
        if (params.conversationId === this.info.id) return this.onRecord(params);
        this.onOther(params);
        return true;
      case "conversation/delta":
        if (params.conversationId === this.info.id) this.onDelta(params);
        return true;
      case "conversation/gap":
        return params.conversationId !== this.info.id;
      default:
        return true;
    }
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

  /** Folds a record in. Returns false when the conversation must be opened again: some are missing or rolled back. */
  onRecord(record: LogRecord & { epoch?: string }): boolean {
    if (record.seq <= this.lastSeq) return true;
    if (record.event.type === "conversation.rolledBack") return false;
    if (record.seq > this.lastSeq + 1 || (record.epoch && this.info.epoch && record.epoch !== this.info.epoch))
      return false;
    this.lastSeq = record.seq;
    this.apply(record);
    return true;
  }

  /** Shows the last record if it is an error or a retry. */
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
        // An action that waited for the user has been running only since then.
        this.update(itemId, event, event.status === "running" ? ts : undefined);
        return;
      case "status.changed": {
        const { statusReason: _, ...info } = this.info;
        this.info = { ...info, status: event.to, ...(event.reason && { statusReason: event.reason }) };
        // What commands changed there is told by no event.
        this.needsReviews ||= this.info.isolated !== undefined;
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
        // Model calls outside the steps say nothing about the context of the next step.
        if (event.purpose === undefined)
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
        this.showEnd(turnId, undefined);
        return;
      case "turn.paused":
        this.retry = undefined;
        this.showEnd(turnId, ts);
        return;
      case "turn.completed":
        this.retry = undefined;
        this.turns.complete(event.turn);
        this.showEnd(turnId, ts);
        return;
      case "message.refused":
        // A notice of the log says why.
        this.update(itemId, { type: "item.updated", status: "rejected" });
        return;
      case "changes.updated":
        if (turnId !== undefined) this.turns.change(turnId, event.files);
        // What was decided about them earlier does not count for this change.
        for (const { uri } of event.files) this.reviews.delete(uri);
        return;
      case "changes.reviewed":
        this.needsReviews = true;
        return;
      case "conversation.updated":
        this.info = { ...this.info, title: event.title ?? this.info.title };
    }
  }

  /** Takes note of items in their order: what they say about the plan. */
  private notePlan(item: Shown): void {
    if (item.kind === "plan" && item.status === "completed" && item.entries.length > 0) {
      this.plan = item;
      this.sincePlan = "nothing";
    } else if (item.kind === "userMessage") {
      const isDone = this.plan?.entries.every(({ status }) => status === "completed");
      if (isDone || this.sincePlan === "answer") this.plan = undefined;
      this.sincePlan = "message";
    } else if (this.sincePlan !== "nothing") {
      this.sincePlan = item.kind === "agentMessage" ? "answer" : "message";
    }
  }

  private set(item: Item): void {
    if (item.kind === "plan" || !this.items.has(item.id)) this.notePlan(item);
    this.items.set(item.id, item);
    this.changed.add(item.id);
    this.retry = undefined;
  }

  /** Ends the thinking when the next item begins; the log ends it only together with the whole answer. */
  private endThought({ id, kind }: Item, ts: string): void {
    const thought = this.thinking !== undefined && this.items.get(this.thinking);
    this.thinking = kind === "reasoning" ? id : undefined;
    if (thought && thought.kind === "reasoning" && thought.status === "running")
      this.set({ ...thought, status: "completed", endedAt: ts });
  }

  /** The sub-agent that asks, or undefined when the conversation itself does. */
  askedBy({ conversationId }: Approval): string | undefined {
    const item = this.subagent(conversationId);
    return item && `${item.agent}: ${item.title}`;
  }

  private subagent(conversationId: string): SubagentItem | undefined {
    return [...this.items.values()].find(
      (item): item is SubagentItem => item.kind === "subagent" && item.conversationId === conversationId,
    );
  }

  /** Shows a sub-agent's approvals in this conversation, and its current action on its card. */
  onOther({ conversationId, event }: EventParams): void {
    if (event.type === "approval.resolved") this.pending.delete(event.approvalId);
    const card = this.subagent(conversationId);
    if (!card) return;
    if (event.type === "approval.requested") this.pending.set(event.approval.id, event.approval);
    if (event.type !== "item.started" || !("title" in event.item)) return;
    this.doing.set(conversationId, event.item.title);
    this.changed.add(card.id);
  }

  /** A sub-agent's current action; right after opening only its pending approval is known. */
  doingOf(conversationId: string): string | undefined {
    const asked = [...this.pending.values()].find((each) => each.conversationId === conversationId);
    return this.doing.get(conversationId) ?? (asked && "title" in asked ? asked.title : undefined);
  }

  /** Updates an item: always its status, other fields when the user edited the action. */
  private update(itemId: string | undefined, { type: _, ...change }: ItemUpdated, startedAt?: string): void {
    const item = itemId === undefined ? undefined : this.items.get(itemId);
    if (!item || isEnd(item)) return;
    this.items.set(item.id, { ...item, ...change, ...(startedAt !== undefined && { startedAt }) });
    this.changed.add(item.id);
  }

  /** A queued message got another text, place or delivery. */
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

/** A conflict awaits review too: it can no longer be reverted as a whole, but accepted, or decided by hunk. */
export function isWaiting(state: ReviewedFile["state"] | undefined): boolean {
  return state === "pending" || state === "conflict";
}

function context(used = 0, size?: number): ConversationInfo["context"] {
  return size === undefined ? { used } : { used, size };
}

/** Adds two usages. The cost is known only when both parts have one. */
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
