/**
 * A conversation: its log, and the state that is the fold over it. Rules O, R and S.
 *
 * What must survive a kill is an event, and nothing else is part of the state. It decides nothing.
 */

import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { basename, join } from "node:path";
import { Failure, isObject, newId, parse, type Json } from "./wire.ts";

export const now = () => new Date().toISOString();
const sorted = (_: string, value: any) => (isObject(value) ? Object.fromEntries(Object.entries(value).sort()) : value);
/** Equal for values that differ only in the order of keys. */
export const digestOf = (value: any) => createHash("sha256").update(JSON.stringify(value, sorted)).digest("hex");

const UNFINISHED = new Set(["pending", "awaitingApproval", "running"]);

/** Hears of each record once it is on the disk, with its line in the log. */
type Tell = (conversation: Conversation, record: Json, line: string) => void;

export class Conversation {
  readonly id: string;
  readonly records: Json[] = [];
  readonly items = new Map<string, Json>();
  /** Approvals that wait, by their ids. */
  readonly pending = new Map<string, Json>();
  /** Decisions, by the ids of the approval and of its item. */
  readonly decisions = new Map<string, Json>();
  /** What requests were answered with, by method and `clientRequestId`. */
  readonly causes = new Map<string, Json>();
  readonly turnOf = new Map<string, string>();
  readonly repaired: string[] = [];
  about: Json = {};
  status = "idle";
  reason: string | undefined;
  turn: Json | undefined;
  lastTurn: Json | undefined;
  queue: Json[] = [];
  usage: Record<string, number> = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0,
    reasoningTokens: 0, requests: 0 };
  epoch = newId();
  readonly #directory: string;
  readonly #tell: Tell;
  #overrides: Json | undefined;
  #file: number | undefined;
  #unwritten: Json[] = [];

  /** Read what the log has. Nothing is written before `own`. */
  constructor(directory: string, tell: Tell) {
    [this.id, this.#directory, this.#tell] = [basename(directory), directory, tell];
    for (const line of this.#stored().toString().split("\n").slice(0, -1)) this.#read(line);
  }

  get lastSeq(): number { return this.records.at(-1)?.seq ?? 0; }
  get updatedAt(): string { return this.records.at(-1)!.ts; }
  get isOwned(): boolean { return this.#file !== undefined; }
  get options(): Json { return { ...this.about.options, ...(this.turn && this.#overrides) }; }
  /** Items that have not ended, in their order. */
  get open(): Json[] { return [...this.items.values()].filter((item) => UNFINISHED.has(item.status)); }

  /** Become the log's only writer [C13], put aside what a crash left of a line, and repair the rest. */
  own(): void {
    fs.mkdirSync(this.#directory, { recursive: true, mode: 0o700 }); // [T10]
    const lock = join(this.#directory, "lock"); // Node has no file locks: a process that lives holds it.
    const pid = fs.existsSync(lock) ? Number(fs.readFileSync(lock)) : 0;
    if (pid && pid !== process.pid && fs.existsSync(`/proc/${pid}`))
      throw new Failure("conversationLocked", `It is open in the process ${pid}.`, { lock: { mine: false, pid } });
    fs.writeFileSync(lock, `${process.pid}`, { mode: 0o600 });
    const stored = this.#stored();
    const end = stored.lastIndexOf("\n") + 1;
    if (end < stored.length) {
      fs.writeFileSync(join(this.#directory, `torn-${Date.now()}`), stored.subarray(end), { mode: 0o600 });
      fs.truncateSync(this.#path, end);
    }
    this.#file = fs.openSync(this.#path, "a", 0o600);
    if (this.repaired.length) this.epoch = newId(); // [R3]
    if (this.repaired.length || !end) this.#append([JSON.stringify({ v: 1, kind: "header", epoch: this.epoch })]);
  }

  release(): void {
    if (this.#file !== undefined) fs.closeSync(this.#file);
    this.#file = undefined;
    fs.rmSync(join(this.#directory, "lock"));
  }

  /** Make an event, of the open turn, part of the state. `commit` makes it durable and tells it. */
  record(event: Json, itemId?: string): void {
    const turnId = event.type === "status.changed" ? undefined : this.turn?.id; // [O7]
    const record = { v: 1, seq: this.lastSeq + 1, ts: now(), turnId, itemId, event };
    this.#unwritten.push(record);
    this.#fold(record);
  }

  /** First to the disk, then to the client [O2]. The last record remembers the request that caused them all [K1]. */
  commit(cause?: Json): void {
    const records = this.#unwritten.splice(0);
    if (!records.length) return;
    if (cause) this.#foldCause((records.at(-1)!.cause = cause));
    const lines = records.map((record) => JSON.stringify(record));
    this.#append(lines);
    records.forEach((record, index) => this.#tell(this, record, lines[index]!));
  }

  setStatus(to: string, reason?: string): void {
    const event = { type: "status.changed", from: this.status, to, reason };
    if (to !== this.status || reason !== this.reason) this.record(event); // [S1, S2]
  }

  info(): Json {
    const { title, folders, agent, createdAt, options, metadata } = this.about;
    const messages = [...this.items.values()].filter((item) => item.kind.endsWith("Message"));
    return { id: this.id, title, folders, status: this.status, statusReason: this.reason, model: options.model,
      modelLabel: agent.label, createdAt, updatedAt: this.updatedAt, lastSeq: this.lastSeq, epoch: this.epoch,
      messageCount: messages.length, usage: this.usage, context: { used: 0 }, options, archived: false, tags: [],
      metadata, turnId: this.turn?.id, queueLength: this.queue.length, pendingCount: this.pending.size,
      lock: { mine: this.isOwned } };
  }

  get #path(): string { return join(this.#directory, "events.jsonl"); }
  #stored(): Buffer { return fs.existsSync(this.#path) ? fs.readFileSync(this.#path) : Buffer.alloc(0); }

  #append(lines: string[]): void {
    fs.writeSync(this.#file!, `${lines.join("\n")}\n`);
    fs.fdatasyncSync(this.#file!);
  }

  #read(line: string): void {
    const record = parse(Buffer.from(line));
    if (record?.kind === "header") this.epoch = record.epoch;
    else if (record?.event && record.seq > this.lastSeq) this.#fold(record);
    else if (!record?.kind) this.repaired.push("A damaged line of the log was skipped."); // [R7]
  }

  #foldCause(cause: Json): void { this.causes.set(`${cause.method} ${cause.clientRequestId}`, cause); }

  #fold(record: Json): void {
    const { ts, turnId, itemId, event } = record;
    this.records.push(record);
    if (record.cause) this.#foldCause(record.cause);
    switch (event.type) {
      case "conversation.created": this.about = { ...event, createdAt: ts }; break;
      case "options.changed": this.about.options = { ...this.about.options, ...event.values }; break;
      case "status.changed": [this.status, this.reason] = [event.to, event.reason]; break;
      case "turn.started":
        this.turn = { id: turnId, status: "running", startedAt: ts, nSteps: 0 };
        this.#overrides = event.options;
        break;
      case "turn.completed": [this.lastTurn, this.turn] = [event.turn, undefined]; break;
      case "message.queued": this.queue.push(event.message); break;
      case "message.dequeued": this.queue = this.queue.filter((each) => each.messageId !== event.messageId); break;
      case "item.started": this.items.set(event.item.id, { ...event.item }); break;
      case "item.completed":
        this.items.set(event.item.id, { ...event.item });
        if (event.item.kind === "userMessage") this.turnOf.set(event.item.messageId, turnId);
        break;
      case "item.updated": this.items.get(itemId)!.status = event.status; break;
      case "approval.requested": this.pending.set(event.approval.id, event.approval); break;
      case "approval.resolved": {
        const decision = { ...event, digest: this.pending.get(event.approvalId)!.digest };
        for (const id of [event.approvalId, itemId]) this.decisions.set(id, decision);
        this.pending.delete(event.approvalId);
        break;
      }
      case "usage.updated":
        for (const [name, sum] of Object.entries(this.usage)) this.usage[name] = sum + (event.usage[name] ?? 0);
        if (this.turn) this.turn.nSteps += 1;
    }
  }
}
