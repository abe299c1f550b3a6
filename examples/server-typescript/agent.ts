/**
 * The agent of one conversation: messages and turns, approvals, steps. Rules C, A and S.
 *
 * Whatever a request asks for happens at once, as events; the work goes on from the next tick, until it is halted.
 */

import { Conversation, digestOf, now } from "./conversation.ts";
import { askModel, endpointOf, type Answer } from "./model.ts";
import { words, type Tool } from "./tools.ts";
import type { Server } from "./server.ts";
import { check, Failure, LIMITS, failureOf, isObject, newId, parse, wrong, type Json } from "./wire.ts";

export const SYSTEM = "You work in the user's folder. Use the tools, and say in one sentence what you have done.";
/** The values of the options that are lists. */
export const CHOICES: Record<string, string[]> = { mode: ["plan", "ask", "full"],
  approval: ["askAlways", "askRisky", "askNever"] };
const REJECT = { effect: "reject", scope: "once" };
const OPTIONS = [
  { id: "allow-once", label: "Allow once", effect: "allow", scope: "once" },
  { id: "reject", label: "Reject", ...REJECT },
];
/** Hidden characters cannot hide anything from the user [A6]. */
const readable = (text: string) => text.replace(/\p{C}/gu, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);

export class Agent {
  readonly log: Conversation;
  isSubscribed = false;
  tools: Tool[] = [];
  readonly #server: Server;
  readonly #waits = new Map<string, { done: (turn: Json) => void; fail: (failure: Failure) => void }>();
  /** Requests for approval that the client has not answered, each with what withdraws it. */
  readonly #asked = new Map<string, () => void>();
  #control: AbortController | undefined;
  #decided = () => {};

  constructor(log: Conversation, server: Server) {
    [this.log, this.#server] = [log, server];
  }

  // Messages and turns

  /** Start a turn, steer the open one, queue, or interrupt and start: the table of deliveries [C8]. */
  send({ content, delivery = "auto", clientMessageId, expectedTurnId, overrides, run }: Json): Json {
    const { log } = this;
    if (expectedTurnId && expectedTurnId !== log.turn?.id)
      throw new Failure("turnMismatch", "Another turn is open, or none."); // [C9]
    const [messageId, held] = [newId(), run === false || undefined];
    const message = { messageId, content, delivery, clientMessageId, createdAt: now(), held };
    if (held || (log.turn && delivery === "queue")) {
      this.#enqueue(message);
      return { messageId, disposition: "queued", queuePosition: log.queue.length - 1 };
    }
    const cuts = delivery === "interrupt" && log.status !== "paused";
    if (log.turn && !cuts) {
      if (overrides?.options) throw new Failure("invalidState", "A message that steers has no options of its own.");
      this.#enqueue(message);
      this.#supersede();
      if (log.status === "paused") this.#goOn();
      return { messageId, disposition: "steered", turnId: log.turn.id };
    }
    const disposition = log.turn ? "interruptedAndStarted" : "started";
    if (log.turn) this.interrupt();
    this.#supersede();
    return { messageId, disposition, turnId: this.#start("message", message, overrides?.options) };
  }

  #enqueue(message: Json): void {
    if (this.log.queue.length >= LIMITS.queuedMessages)
      throw new Failure("overloaded", "Too many messages wait.", { retryAfterMs: 1000 });
    this.log.record({ type: "message.queued", message });
  }

  /** The turn of a message, once it has ended or is paused. */
  outcome(messageId: string): Promise<Json> {
    return new Promise((done, fail) => this.#waits.set(messageId, { done, fail }));
  }

  pause(when = "step"): Json {
    const { log } = this;
    if (!log.turn) throw new Failure("invalidState", "Nothing is running that could pause.");
    if (log.status !== "paused") log.record({ type: "pause.requested", when });
    if (log.status === "running" && when === "step") log.setStatus("pausing");
    else if (log.status !== "paused") {
      this.#halt("cancelled", "interrupted");
      this.#rest("user");
    }
    return { status: log.status, turnId: log.turn.id };
  }

  resume(message?: Json[]): Json {
    const { log } = this;
    if (message) return { turnId: this.send({ content: message }).turnId };
    const isUnfinished = log.status === "error" || log.lastTurn?.status === "interrupted";
    if (log.status !== "paused" && (log.turn || !isUnfinished))
      throw new Failure("invalidState", "There is nothing to resume.");
    if (log.turn) this.#goOn();
    else this.#start("resume");
    return { turnId: log.turn!.id };
  }

  /** End the turn now [C11], and what has outlived an earlier one. */
  interrupt(turnId?: string, clearQueue = false): Json {
    const { log } = this;
    if (turnId && turnId !== log.turn?.id) return { status: log.status };
    if (clearQueue) for (const each of log.queue) this.remove(each.messageId);
    const ended = log.turn?.id;
    if (ended) log.record({ type: "interrupt.requested" });
    if (ended) log.setStatus("interrupting");
    for (const approval of log.pending.values()) this.#resolve(approval, REJECT, "interrupted"); // [A9]
    this.#halt("cancelled", "interrupted");
    for (const item of log.open) this.#finish(item, "cancelled", { reason: "notStarted" });
    if (ended) this.#end("interrupted", { stopReason: "cancelled" });
    else if (log.status === "paused") log.setStatus("idle");
    return { turnId: ended, status: ended ? "interrupted" : log.status };
  }

  /** Record what a kill would leave, once there is no more of it: at a stop, a close, and after a kill [R4, B25]. */
  suspend(): void {
    this.#halt("cancelled", "outcomeUnknown");
    if (this.log.turn) this.#end("interrupted", { stopReason: "cancelled" }, "paused", "daemonRestarted");
    this.log.commit();
  }

  close(): void {
    this.suspend();
    this.log.record({ type: "conversation.closed" });
    this.log.commit(); // Told before the answer [O3].
    this.unsubscribe();
    for (const { fail } of this.#waits.values()) fail(new Failure("invalidState", "The conversation was closed."));
    this.log.release();
  }

  remove(messageId: string): void {
    if (this.log.queue.some((each) => each.messageId === messageId))
      this.log.record({ type: "message.dequeued", messageId, outcome: "removed" });
    this.#waits.get(messageId)?.fail(new Failure("invalidState", "The message was removed."));
  }

  /** Forget a request that waits for the end of a message's turn, and end that turn [B19]. */
  cancel(messageId: string): void {
    const queued = this.log.queue.find((each) => each.messageId === messageId);
    const isNow = queued ? queued.delivery !== "queue" : this.log.turnOf.get(messageId) === this.log.turn?.id;
    this.#waits.get(messageId)?.fail(new Failure("requestCancelled", "The client cancelled this request."));
    if (queued) this.remove(messageId);
    if (isNow) this.interrupt();
    this.log.commit();
  }

  #start(cause: string, message?: Json, options?: Json): string {
    const turn = (this.log.turn = { id: newId() });
    this.log.record({ type: "turn.started", cause, options });
    if (message) this.#say(message);
    this.#run();
    return turn.id;
  }

  #goOn(): void {
    this.log.record({ type: "turn.resumed" });
    this.#run();
  }

  /** Work from the next tick on: then the request is answered that made it [C1]. */
  #run(): void {
    this.log.setStatus("running");
    const { signal } = (this.#control = new AbortController());
    setImmediate(() => this.#work(signal).catch((error) => signal.aborted || this.#fail(failureOf(error))));
  }

  /** Stop working at once. What runs ends so; what waits goes on waiting. */
  #halt(status: string, reason: string): void {
    this.#control?.abort();
    this.#control = undefined;
    for (const item of this.log.open) if (item.status === "running") this.#finish(item, status, { reason });
  }

  #say({ messageId, clientMessageId, content, delivery }: Json): void {
    const item = { id: newId(), kind: "userMessage", messageId, clientMessageId, content, delivery };
    this.#finish(item, "completed");
  }

  #finish(item: Json, status: string, more: Json = {}): void {
    this.log.record({ type: "item.completed", item: { ...item, status, endedAt: now(), ...more } }, item.id);
  }

  #end(status: string, more: Json, to = "idle", reason?: string): void {
    const turn = { ...this.log.turn, status, endedAt: now(), ...more };
    this.log.record({ type: "turn.completed", turn }); // [O6]
    this.log.setStatus(to, reason);
    this.log.commit();
    this.#settle(turn);
    const next = this.log.queue.find((message) => !message.held);
    if (status !== "completed" || !next || to !== "idle") return; // [C10]
    this.log.record({ type: "message.dequeued", messageId: next.messageId, outcome: "started" });
    this.#start("message", next);
    this.log.commit();
  }

  #rest(reason: string): void {
    this.log.record({ type: "turn.paused", reason });
    this.log.setStatus("paused", reason); // [S2]
    this.log.commit();
    this.#settle({ ...this.log.turn, status: "paused" });
  }

  #settle(turn: Json): void {
    for (const [messageId, { done }] of this.#waits)
      if (this.log.turnOf.get(messageId) === turn.id && this.#waits.delete(messageId)) done(turn);
  }

  /** A failure is an event [E5]. What may pass lets the turn wait, what will not ends it. */
  #fail({ answer }: Failure): void {
    const { code, message, data } = answer;
    const error = { code, message, kind: data.kind, retryable: data.retryable };
    this.#halt("cancelled", "cutOff");
    this.log.record({ type: "error.raised", error });
    if (data.kind === "network" || data.kind === "rateLimit") this.#rest(data.kind);
    else this.#end("failed", { stopReason: "error", error }, "error");
  }

  // Approvals

  /** Ask the client about what waits; it answers, or sends `approval/respond`, or neither [A1]. */
  subscribe(): void {
    this.isSubscribed = true;
    if (!this.#server.isAsked) return; // [I5]
    for (const approval of this.log.pending.values()) {
      if (this.#asked.has(approval.id)) continue;
      const onAnswer = ({ result }: Json) => {
        this.#asked.delete(approval.id);
        try {
          this.respond({ ...result, approvalId: approval.id, digest: approval.digest });
        } catch (error) {
          failureOf(error); // An unknown option, or none, decides nothing.
        }
        this.log.commit();
      };
      this.#asked.set(approval.id, this.#server.connection.ask("approval/request", approval, onAnswer));
    }
  }

  unsubscribe(): void {
    this.isSubscribed = false; // [C5]
    for (const [id, withdraw] of this.#asked) if (this.#asked.delete(id)) withdraw();
  }

  respond({ approvalId, digest, optionId, decision, feedback, editedSubject }: Json): Json {
    const earlier = this.log.decisions.get(approvalId);
    if (earlier) return { resolved: false, alreadyResolved: { by: earlier.by, decision: earlier.decision } }; // [A5]
    const approval = this.log.pending.get(approvalId)!;
    if (digest !== approval.digest) throw new Failure("approvalStale", "Another action was shown than this."); // [A3]
    if (editedSubject) throw wrong("editedSubject", "not_editable"); // [A8]
    const option = OPTIONS.find((each) => (optionId ? each.id === optionId : each.effect === decision?.effect));
    if (!option) throw wrong(optionId ? "optionId" : "decision", "unknown"); // [A7]
    this.#resolve(approval, option, "user", feedback);
    return { resolved: true, needsResume: this.log.status === "paused" || undefined }; // [A11]
  }

  #resolve(approval: Json, { effect, scope }: Json, by: string, feedback?: string): void {
    const event = { type: "approval.resolved", approvalId: approval.id, decision: { effect, scope }, by, feedback };
    this.log.record(event, approval.itemId);
    this.#asked.get(approval.id)?.();
    this.#asked.delete(approval.id);
    if (this.log.status === "waiting") this.log.setStatus("running");
    this.#decided();
  }

  /** The user says something else: what waits is rejected [A9], and what would follow it is not run. */
  #supersede(): void {
    if (this.log.turn && !this.log.pending.size) return;
    for (const approval of this.log.pending.values()) this.#resolve(approval, REJECT, "superseded");
    for (const item of this.log.open)
      if (item.status === "pending") this.#finish(item, "cancelled", { reason: "superseded" });
  }

  /** Return the decision about an action: a rule's, or the user's for exactly what will run [A4]. */
  async #decision(item: Json, tool: Tool, signal: AbortSignal): Promise<Json> {
    for (;;) {
      const digest = digestOf([tool.name, item.args, tool.state(item.args)]);
      const answer = this.log.decisions.get(item.id);
      if (answer?.decision.effect === "reject" || answer?.digest === digest) return answer!;
      if (![...this.log.pending.values()].some((approval) => approval.itemId === item.id)) {
        const rule = this.#rule(tool);
        if (rule) this.log.record({ type: "action.decided", ...rule, risk: item.risk, digest }, item.id);
        if (rule) return { decision: rule, feedback: rule.rule };
        this.#request(item, tool, digest);
      }
      if (this.log.pending.size) {
        this.log.setStatus("waiting");
        this.log.commit();
        if (this.isSubscribed) this.subscribe();
        await new Promise<void>((then) => ([this.#decided, signal.onabort] = [then, () => then()]));
        signal.throwIfAborted();
      }
    }
  }

  #request(item: Json, tool: Tool, digest: string): void {
    const { id: itemId, title, args, risk } = item;
    const approval = { id: newId(), digest, conversationId: this.log.id, turnId: this.log.turn!.id, itemId, title, risk,
      subject: { kind: "tool", tool: tool.name, args }, options: OPTIONS, editable: false, createdAt: now() };
    this.log.record({ type: "item.updated", status: "awaitingApproval" }, itemId);
    this.log.record({ type: "approval.requested", approval }, itemId); // [A2]
    if (!this.#server.canAsk) this.#resolve(approval, REJECT, "noClient"); // [A10]
  }

  /** What needs no question, by the user's options and trust [T2]. */
  #rule(tool: Tool): { effect: string; rule: string } | undefined {
    const { mode, approval } = this.log.options;
    if (tool.isReadOnly && approval !== "askAlways") return { effect: "allow", rule: "it changes nothing" };
    if (!this.log.about.folders.every((folder: string) => this.#server.trusts(folder)))
      return { effect: "reject", rule: "the folder is not trusted" };
    if (mode === "plan") return { effect: "reject", rule: "nothing is changed while the agent plans" };
    if (mode === "full" || approval === "askNever") return { effect: "allow", rule: "the user wants no questions" };
    return undefined;
  }

  // Steps

  async #work(signal: AbortSignal): Promise<void> {
    const { log } = this;
    for (let answer: Answer | undefined; ; ) {
      signal.throwIfAborted();
      for (let item; (item = log.open[0]); ) await this.#act(item, signal);
      const isSteered = this.#takeMessages();
      if (answer && !answer.calls.length && !isSteered)
        return this.#end("completed", { stopReason: answer.stopReason, finalText: answer.text });
      if (log.status === "pausing") return this.#rest("user");
      if (log.turn!.nSteps >= log.about.maxSteps)
        return this.#end("completed", { stopReason: "maxSteps" }, "paused", "budget");
      log.commit();
      answer = await this.#step(signal);
    }
  }

  /** Let the model have the messages that came meanwhile. */
  #takeMessages(): boolean {
    const messages = this.log.queue.filter((message) => message.held || message.delivery !== "queue");
    for (const message of messages) {
      this.log.record({ type: "message.dequeued", messageId: message.messageId, outcome: "steered" });
      this.#say(message);
    }
    return messages.length > 0;
  }

  async #step(signal: AbortSignal): Promise<Answer> {
    const { log } = this;
    const [id, batch, since] = [newId(), newId(), Date.now()];
    let offset = 0; // In code points [O11].
    const onText = (text: string) => {
      const item = { id, kind: "agentMessage", status: "running", startedAt: now(), messageId: id, text: "", batch };
      if (!offset) log.record({ type: "item.started", item }, id); // [O4]
      log.commit();
      log.items.get(id)!.text += text; // No event: the log has it when the item ends.
      const [conversationId, turnId] = [log.id, log.turn!.id];
      this.#server.delta(this, { conversationId, turnId, itemId: id, channel: "text", offset, text });
      offset += [...text].length;
    };
    const { model } = log.options;
    const endpoint = endpointOf(model, this.#server.settings.llm);
    const answer = await askModel(endpoint, this.#history(), this.tools, onText, signal);
    if (offset) this.#finish(log.items.get(id)!, "completed");
    const [{ usage }, latencyMs] = [answer, Date.now() - since];
    log.record({ type: "usage.updated", usage, model, latencyMs, contextUsed: usage.inputTokens });
    for (const call of answer.calls) this.#call({ ...call, batch });
    log.commit();
    return answer;
  }

  /** The action: what the model wants, before anything is done [O2]. */
  #call(call: Json): void {
    const [id, tool] = [newId(), this.tools.find((each) => each.name === call.name)];
    const given = parse(Buffer.from(call.arguments));
    const args: Json = isObject(given) ? given : {};
    const item = { id, kind: "toolCall", status: "pending", startedAt: now(), call, tool: call.name,
      toolKind: tool?.kind ?? "other", title: readable(tool && args === given ? tool.title(args) : call.name), args,
      risk: tool?.isReadOnly ? "low" : "medium", locations: [], content: [] };
    this.log.record({ type: "item.started", item }, id);
    const reason = tool ? "invalidArguments" : "unknownTool";
    if (!tool || args !== given) this.#finish(item, "failed", { reason, content: words(`This failed: ${reason}.`) });
  }

  /** The observation: a refusal and a failure are results too [E5]. */
  async #act(item: Json, signal: AbortSignal): Promise<void> {
    try {
      const tool = this.tools.find((each) => each.name === item.tool);
      if (!tool) throw new Failure("toolError", "This tool is not there any more.");
      const { decision, feedback } = await this.#decision(item, tool, signal);
      if (decision.effect === "reject") {
        const content = words(`This was not allowed: ${feedback ?? "the user rejected it"}.`);
        this.#finish(item, "rejected", { content });
      } else {
        this.log.record({ type: "item.updated", status: "running" }, item.id);
        this.log.commit(); // Before the side effect [O2].
        const call = { conversationId: this.log.id, itemId: item.id, name: tool.name, arguments: item.args };
        const content = await tool.run(call, signal);
        signal.throwIfAborted();
        this.#finish(item, "completed", { content });
      }
    } catch (error) {
      signal.throwIfAborted();
      this.#finish(item, "failed", { content: words(failureOf(error).message) });
    }
    this.log.commit();
  }

  /** The items as messages of the chat-completions format. */
  #history(): Json[] {
    const messages: Json[] = [{ role: "system", content: this.log.about.agent.systemPrompt }];
    const ofBatch = new Map<string, Json>();
    const said = (batch: string) => {
      const message: Json = ofBatch.get(batch) ?? { role: "assistant", content: "" };
      if (!ofBatch.has(batch)) messages.push(message);
      ofBatch.set(batch, message);
      return message;
    };
    const textOf = (part: Json) => part.text ?? JSON.stringify(part);
    for (const item of this.log.items.values()) {
      if (item.kind === "userMessage") messages.push({ role: "user", content: item.content.map(textOf).join("\n\n") });
      else if (item.kind === "agentMessage") said(item.batch).content = item.text;
      else {
        const { id, name, arguments: given } = item.call;
        (said(item.call.batch).tool_calls ??= []).push({ id, type: "function", function: { name, arguments: given } });
        const result = item.content.map(textOf).join("\n") || `[${item.status}: ${item.reason ?? "no output"}]`;
        messages.push({ role: "tool", tool_call_id: id, content: result });
      }
    }
    return messages;
  }
}

export function checkOption(id: string, value: unknown, path: string): void {
  if (id !== "model" && !Object.hasOwn(CHOICES, id)) throw wrong(path, "unknown");
  check({ [path]: value }, { [path]: CHOICES[id]?.join("|") ?? "text 1 200" });
}
