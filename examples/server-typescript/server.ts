/**
 * A second server of the oh-daemon protocol, written from protocol.md and docs/protocol/ alone: `node server.ts --stdio`.
 *
 * This file has what the client sees: initialize, the table of methods, the life of the process. Node's own modules only.
 * [I3] and the like cite the rule of docs/protocol/ that a line keeps. README.md says what is left out.
 */

import * as fs from "node:fs";
import { homedir } from "node:os";
import { basename, join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { Agent, SYSTEM } from "./agent.ts";
import { Conversation, digestOf } from "./conversation.ts";
import { functionOf } from "./model.ts";
import { clientTool, pathOf, writeFile, type Tool } from "./tools.ts";
import { check, checkContent, Connection, Ended, Failure, LIMITS, MIB, newId, readMessages, wrong, type Json, type Later } from "./wire.ts";

const NAME = { name: "oh-example", version: "1.0.0" };
const ENCODINGS = ["utf-8", "utf-16", "utf-32"];
const FEATURES = ["approvalRequests"];
const NOTIFICATIONS = ["conversation/event", "conversation/delta", "conversation/changed", "conversation/gap"];
const SETTINGS = ["model", "mode", "approval", "llm"];
const CHOICES: Record<string, string[]> = { mode: ["plan", "ask", "full"], approval: ["askAlways", "askRisky", "askNever"] };
const LOGS = join(".openhands", "conversations");

export class Server {
  readonly connection = new Connection((method, params, later) => this.#serve(method, params, later));
  #state: "new" | "ready" | "shutdown" = "new";
  #block: Json = {};
  #folders: string[] = [];
  readonly #trusted = new Set<string>();
  readonly #documents = new Set<string>();
  readonly #agents = new Map<string, Agent>();

  // The life of the process: rules B20 to B25

  async run(): Promise<void> {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => this.#stop(0)); // [B24]
    process.stdout.on("error", () => this.#stop(0));
    try {
      for await (const { message, failure, id = null } of readMessages(process.stdin)) {
        if (failure) this.connection.answer(id, { error: failure.answer });
        else this.#hear(this.connection.receive(message));
        await this.connection.caughtUp(16 * MIB);
      }
    } catch (error: any) {
      if (!(error instanceof Ended)) process.stderr.write(`${NAME.name}: ${error.message}\n`);
      await this.#stop(error instanceof Ended ? 0 : 3); // [B6]
    }
  }

  /** Suspend what runs, answer what is open, and end [B25]. */
  async #stop(code: number): Promise<void> {
    for (const agent of this.#agents.values()) agent.suspend();
    for (const agent of this.#agents.values()) agent.log.release();
    this.#agents.clear();
    await this.connection.end();
    process.exit(code);
  }

  #serve(method: string, params: any, later: Later): unknown {
    if (this.#state === "shutdown") throw new Failure("invalidRequest", "After shutdown there is only exit."); // [B22]
    if (method === "initialize") return this.#initialize(params);
    if (this.#state === "new") throw new Failure("serverNotInitialized", "Send initialize first."); // [B20]
    if (method === "shutdown") {
      this.#state = "shutdown";
      return null;
    }
    if (!METHODS[method]) throw new Failure("methodNotFound", `There is no method ${method}.`); // [B13]
    const [rules, run] = METHODS[method];
    check(params, rules);
    for (const name of ["content", "message"]) checkContent(params[name], name);
    return run(this, params, later);
  }

  #hear(notification: { method: string; params: Json } | undefined): void {
    const { method, params = {} } = notification ?? {};
    if (method === "exit") void this.#stop(this.#state === "shutdown" ? 0 : 1); // [B23]
    if (this.#state !== "ready") return; // [B20]
    const uris = (list: any): string[] => (Array.isArray(list) ? list : []).map((each) => pathOf(each?.uri));
    if (method === "textDocument/didOpen") this.#documents.add(pathOf(params.textDocument?.uri));
    if (method === "textDocument/didClose") this.#documents.delete(pathOf(params.textDocument?.uri));
    if (method !== "workspace/didChangeWorkspaceFolders") return;
    const removed = uris(params.event?.removed);
    this.#folders = [...this.#folders.filter((each) => !removed.includes(each)), ...uris(params.event?.added)]; // [D5]
  }

  // Initialize: rules I

  #initialize(params: any): Json {
    if (this.#state !== "new") throw new Failure("invalidRequest", "This connection is initialized."); // [B21]
    check(params, { processId: "integer?", capabilities: "object?", workspaceFolders: "list?", initializationOptions: "object?" }); // [I7]
    const block = checkedBlock(params);
    const isOurs = block.protocolVersion?.major === undefined || block.protocolVersion.major === 1;
    const data = { supported: [{ major: 1, minor: 0 }], retry: false };
    if (!isOurs) throw new Failure("unsupportedVersion", "This server speaks version 1.", data); // [I3]
    const folders = params.workspaceFolders ?? (params.rootUri ? [{ uri: params.rootUri }] : []);
    this.#folders = folders.map(({ uri }: Json) => pathOf(uri));
    for (const { folder, trusted } of block.trust ?? []) if (trusted) this.#trusted.add(pathOf(folder));
    [this.#state, this.#block] = ["ready", block];
    if (params.processId === process.ppid)
      setInterval(() => process.ppid === params.processId || this.#stop(0), 500).unref(); // [B24]
    const offered: string[] = params.capabilities?.general?.positionEncodings ?? [];
    const experimental = { ohDaemon: { protocolVersion: data.supported[0], daemon: { ...NAME, pid: process.pid }, limits: LIMITS, // [L1]
      methods: Object.keys(METHODS), notifications: NOTIFICATIONS, understood: this.#understood() } }; // [I2, I4]
    const workspace = { workspaceFolders: { supported: true, changeNotifications: true } };
    return { capabilities: { experimental, positionEncoding: offered.find((each) => ENCODINGS.includes(each)) ?? "utf-16", // [I8]
      textDocumentSync: { openClose: true, change: 0 }, workspace }, serverInfo: NAME };
  }

  /** What of the client's block is used here, and what is not known, vendors' names aside [I6, X3]. */
  #understood(): Json {
    const unknown = (part: string, names: string[]) => Object.keys(this.#block[part] ?? {})
      .filter((name) => !names.includes(name) && !name.startsWith("_")).map((name) => `${part}.${name}`);
    const features = FEATURES.filter((name) => this.#block.features?.[name]);
    return { features, unknown: [...unknown("features", FEATURES), ...unknown("settings", SETTINGS)] };
  }

  // What agents ask of the server and its client

  get isAsked(): boolean { return this.#block.features?.approvalRequests === true; } // [I5]
  get canAsk(): boolean { return this.isAsked || this.#block.client?.kind === "panel"; }
  get settings(): Json { return this.#block.settings ?? {}; }
  trusts(folder: string): boolean { return this.#trusted.has(pathOf(folder)); }

  /** Tell the client what it has subscribed to [C5], and everything that lists show [C14]. */
  tell(log: Conversation, record: Json, line: string): void {
    const { type } = record.event;
    const isWanted = this.#agents.get(log.id)?.isSubscribed && !this.#block.events?.optOut?.includes(type); // [I12]
    if (isWanted) this.connection.event(log.id, log.epoch, record.seq, line);
    const change = ({ "conversation.created": "created", "status.changed": "updated" } as Json)[type];
    if (change) this.connection.notify("conversation/changed", { conversation: log.info(), change });
  }

  delta(agent: Agent, params: Json): void {
    const isWanted = agent.isSubscribed && this.#block.events?.deltas !== false;
    if (isWanted && this.connection.unread < MIB) this.connection.notify("conversation/delta", params); // [L5]
  }

  // Conversations

  get agents(): Agent[] { return [...this.#agents.values()]; }

  agent(id: string): Agent {
    const agent = this.#agents.get(id);
    if (agent) return agent;
    throw new Failure("conversationNotFound", "No conversation with this id is open here."); // [C2]
  }

  /** The conversation with this id, open or not, as far as its log goes. */
  find(id: string): Conversation | undefined {
    const open = this.#agents.get(id)?.log;
    const directory = this.#places().map((place) => join(place, basename(id))).find((each) => fs.existsSync(each));
    return open ?? (directory ? this.#logIn(directory) : undefined);
  }

  read(id: string): Conversation {
    const log = this.find(id);
    if (log?.lastSeq) return log;
    throw new Failure("conversationNotFound", "No open folder has a conversation with this id.");
  }

  /** All conversations of the open folders, and those without a folder, newest first. */
  list(): Conversation[] {
    const ids = this.#places().flatMap((place) => (fs.existsSync(place) ? fs.readdirSync(place) : []));
    const logs = ids.flatMap((id) => this.find(id) ?? []).filter((log) => log.lastSeq);
    return logs.sort((one, two) => two.updatedAt.localeCompare(one.updatedAt));
  }

  open(log: Conversation, tools: Json[] | undefined): Agent {
    let agent = this.#agents.get(log.id);
    if (!agent) {
      log.own();
      agent = new Agent(log, this);
      this.#agents.set(log.id, agent);
      agent.suspend(); // [R4]
    }
    if (tools || !agent.tools.length) agent.tools = this.#tools(log.about.folders, tools ?? []);
    agent.subscribe(); // [C4]
    return agent;
  }

  close(id: string): void {
    this.agent(id).close();
    this.#agents.delete(id);
  }

  create(id: string, { folders, options, title, content, metadata = {}, instructions, clientTools }: Json): Agent {
    const paths: string[] = (folders ?? this.#folders).map(pathOf);
    const isInside = (path: string) => this.#folders.some((each) => `${path}${sep}`.startsWith(each + sep));
    if (!paths.every((path) => this.#trusted.has(path) || isInside(path)))
      throw new Failure("workspaceUntrusted", "A folder is neither open nor trusted."); // [T2]
    const { model = process.env.OH_DAEMON_MODEL ?? "", mode = "ask", approval = "askRisky" } = this.settings;
    const chosen = { mode, approval, model, ...options };
    for (const [name, value] of Object.entries(chosen)) checkOption(name, value, `options.${name}`);
    if (!chosen.model) throw new Failure("authRequired", "No model is chosen: set OH_DAEMON_MODEL.");
    const place = paths[0] ? join(paths[0], LOGS) : this.#places()[0]!;
    const log = this.#logIn(join(place, id));
    const agent = new Agent(log, this);
    agent.tools = this.#tools(paths, clientTools ?? []);
    log.own();
    fs.writeFileSync(join(place, ".gitignore"), "*\n");
    this.#agents.set(id, agent);
    agent.subscribe(); // [C3]
    const first = content?.find((part: Json) => part.text)?.text.trim().split("\n")[0].slice(0, 60);
    const about = { model: chosen.model, label: chosen.model, systemPrompt: `${SYSTEM}\n${instructions ?? ""}`,
      tools: agent.tools.map(functionOf) };
    log.record({ type: "conversation.created", title: title ?? first ?? "New conversation", agent: about, options: chosen,
      folders: paths.map((path) => pathToFileURL(path).href), maxSteps: agent.maxSteps, metadata });
    return agent;
  }

  /** Folders of logs: the user's, for conversations without a folder, and one in each open folder. */
  #places(): string[] {
    const state = process.env.XDG_STATE_HOME ?? join(homedir(), ".local", "state");
    return [join(state, NAME.name), ...this.#folders.map((folder) => join(folder, LOGS))];
  }

  #logIn(directory: string): Conversation {
    return new Conversation(directory, (...told) => this.tell(...told));
  }

  #tools(folders: string[], given: Json[]): Tool[] {
    const own = folders.slice(0, 1).map((folder) => writeFile(pathOf(folder), (path) => this.#documents.has(path)));
    for (const [index, tool] of given.entries()) {
      check(tool, { name: "text 1 64", description: "text? 0 4000", inputSchema: "object?", annotations: "object?" }, `clientTools.${index}.`);
      if (own.some(({ name }) => name === tool.name)) throw wrong(`clientTools.${index}.name`, "unknown");
    }
    return [...own, ...given.map((tool) => clientTool(tool, this.connection))];
  }
}

/** The client's block, from where it stands [I1], with the types of what is used here [I7]. */
function checkedBlock(params: Json): Json {
  const isFirst = params.initializationOptions?.ohDaemon !== undefined;
  const block = (isFirst ? params.initializationOptions : params.capabilities?.experimental)?.ohDaemon ?? {};
  const path = `${isFirst ? "initializationOptions" : "capabilities.experimental"}.ohDaemon.`;
  const parts = { protocolVersion: "object?", features: "object?", events: "object?", settings: "object?", client: "object?" };
  check(block, { ...parts, trust: "list?" }, path);
  check(block.protocolVersion ?? {}, { major: "integer?" }, `${path}protocolVersion.`);
  check(block.features ?? {}, { approvalRequests: "flag?" }, `${path}features.`);
  check(block.events ?? {}, { deltas: "flag?", optOut: "list?" }, `${path}events.`);
  check(block.settings ?? {}, { model: "text?", mode: "text?", approval: "text?", llm: "object?" }, `${path}settings.`);
  for (const [index, each] of (block.trust ?? []).entries()) check(each, { folder: "text", trusted: "flag?" }, `${path}trust.${index}.`);
  return block;
}

function checkOption(id: string, value: unknown, path: string): void {
  if (id !== "model" && !CHOICES[id]) throw wrong(path, "unknown");
  check({ [path]: value }, { [path]: CHOICES[id]?.join("|") ?? "text 1 200" });
}

// The methods: rules C and K

const ID = "text 1 128";
const KEY = { conversationId: ID, clientRequestId: "text? 1 200" };
const MESSAGE = { content: `list 1 ${LIMITS.partsPerMessage}`, clientMessageId: "text? 1 200" };
const TOOLS = { clientTools: "list? 0 128" };
const PAGE = "integer? 1 500";

/** Each method with the rules of its params. What it returns is the answer, at once or later. */
const METHODS: Record<string, [Record<string, string>, (server: Server, params: Json, later: Later) => unknown]> = {
  "conversation/start": [{ ...MESSAGE, ...TOOLS, content: "list? 1 64", folders: "list?", title: "text? 1 200", options: "object?",
    metadata: "object?", instructions: "text? 0 65536", clientRequestId: "text? 1 200", maxSteps: "integer? 1 10000" }, start],
  "conversation/open": [{ ...TOOLS, conversationId: ID, replay: "none|items|events?", afterSeq: "integer? 0", limit: PAGE }, open],
  "conversation/close": [{ conversationId: ID, ifRunning: "error|interrupt|pause?" }, close],
  "conversation/list": [{ folder: "text?", query: "text? 0 200", archived: "flag?", parentId: "text?", cursor: "text?", limit: "integer? 1 100" }, list],
  "conversation/read": [{ conversationId: ID, before: "text?", limit: PAGE }, read],
  "conversation/events": [{ conversationId: ID, afterSeq: "integer? 0", beforeSeq: "integer? 1", types: "list?", limit: PAGE }, events],
  "conversation/sendMessage": [{ ...KEY, ...MESSAGE, delivery: "auto|queue|steer|interrupt?", expectedTurnId: "text?",
    overrides: "object?", run: "flag?", wait: "accepted|completed?" }, sendMessage],
  "conversation/pause": [{ ...KEY, when: "step|now?" }, once("conversation/pause", (agent, { when }) => agent.pause(when))],
  "conversation/resume": [{ ...KEY, message: "list? 1 64" }, once("conversation/resume", (agent, { message }) => agent.resume(message))],
  "conversation/interrupt": [{ conversationId: ID, turnId: "text?", clearQueue: "flag?" }, interrupt],
  "conversation/setOption": [{ ...KEY, optionId: "text", value: "text" }, once("conversation/setOption", setOption)],
  "conversation/subscribe": [{ conversationId: ID }, subscribe],
  "conversation/unsubscribe": [{ conversationId: ID }, unsubscribe],
  "approval/list": [{ conversationId: "text? 1 128" }, listApprovals],
  "approval/respond": [{ approvalId: "text", digest: "text", optionId: "text?", decision: "object?", feedback: "text? 0 8000",
    editedSubject: "object?" }, respond],
  "input/respond": [{ inputId: "text", action: "accept|decline|cancel" }, () => {
    throw new Failure("approvalNotFound", "The agents of this server ask no questions."); // [I4]
  }],
};

type Act = (agent: Agent, params: Json) => Json;

/** Do it once, however often it is asked for [K1, K2, K4]: the log remembers the result. */
function repeatable(agent: Agent, method: string, params: Json, act: Act): Json {
  const clientRequestId = params.clientRequestId ?? (method === "conversation/sendMessage" ? params.clientMessageId : undefined);
  const [earlier, bodyHash] = [agent.log.causes.get(`${method} ${clientRequestId}`), digestOf(params)];
  if (earlier && earlier.bodyHash !== bodyHash) throw new Failure("idempotencyConflict", "The same id came with other params before.");
  if (earlier) return { ...earlier.result, duplicate: true };
  const result = act(agent, params);
  agent.log.commit(clientRequestId && { method, clientRequestId, bodyHash, result });
  return result;
}

function once(method: string, act: Act): (server: Server, params: Json) => Json {
  return (server, params) => repeatable(server.agent(params.conversationId), method, params, act);
}

function start(server: Server, params: Json): Json {
  for (const name of ["ephemeral", "isolated", "resultSchema", "tools"])
    if (params[name]) throw new Failure("requestFailed", `This server has no conversations with ${name}.`);
  const id = params.clientRequestId ? digestOf(["start", params.clientRequestId]).slice(0, 32) : newId(); // [K3]
  const earlier = server.find(id);
  const agent = earlier?.lastSeq ? server.open(earlier, params.clientTools) : server.create(id, params);
  const begin = () => (params.content ? agent.send({ content: params.content, clientMessageId: params.clientMessageId }) : {});
  const { messageId, turnId, duplicate } = repeatable(agent, "conversation/start", params, begin);
  return { conversation: agent.log.info(), options: optionsOf(agent.log), messageId, turnId, duplicate };
}

function open(server: Server, { conversationId, replay = "items", afterSeq, limit = 200, clientTools }: Json): Json {
  const agent = server.open(server.read(conversationId), clientTools);
  const { records, lastSeq, ...log } = agent.log;
  const options = optionsOf(agent.log);
  const common = { conversation: agent.log.info(), options, firstSeq: 1, lastSeq: agent.log.lastSeq, hasMore: false,
    pending: [...log.pending.values()], queue: log.queue, repaired: log.repaired };
  const all = [...(replay === "items" ? log.items.values() : records)];
  if (replay === "none") return common;
  if (replay === "items") return { ...common, items: all.slice(-limit), hasMore: all.length > limit };
  const page = afterSeq === undefined ? all.slice(-limit) : all.filter(({ seq }) => seq > afterSeq).slice(0, limit);
  return { ...common, events: page, firstSeq: page[0]?.seq ?? 1, hasMore: page.length > 0 && page.at(-1)!.seq < agent.log.lastSeq };
}

async function close(server: Server, { conversationId, ifRunning = "error" }: Json): Promise<Json> {
  const agent = server.agent(conversationId);
  const isAtRest = !agent.log.turn || agent.log.status === "paused";
  if (!isAtRest && ifRunning === "error") throw new Failure("conversationBusy", "A turn is running."); // [C6]
  if (ifRunning === "interrupt") agent.interrupt();
  server.close(conversationId);
  return {};
}

function list(server: Server, { folder, query = "", archived, parentId, cursor, limit = 50 }: Json): Json {
  const isIn = (log: Conversation) => !folder || log.about.folders.some((each: string) => pathOf(each) === pathOf(folder));
  const isNamed = (log: Conversation) => log.about.title.toLowerCase().includes(query.toLowerCase());
  const logs = archived || parentId ? [] : server.list().filter((log) => isIn(log) && isNamed(log));
  const from = cursor ? logs.findIndex((log) => log.id === cursor) + 1 : 0;
  if (cursor && !from) throw new Failure("cursorInvalid", "The list has changed; ask for it anew.");
  const page = logs.slice(from, from + limit);
  return { conversations: page.map((log) => log.info()), nextCursor: logs.length > from + limit ? page.at(-1)!.id : undefined }; // [C17]
}

function read(server: Server, { conversationId, before, limit = 200 }: Json): Json {
  const log = server.read(conversationId);
  const items = [...log.items.values()];
  const end = before === undefined ? items.length : items.findIndex((item) => item.id === before);
  if (end < 0) throw new Failure("cursorInvalid", "The conversation has no such item.");
  const page = items.slice(Math.max(0, end - limit), end);
  return { conversation: log.info(), items: page, nextBefore: end > limit ? page[0]!.id : undefined };
}

/** Every record of the types between `firstSeq` and `lastSeq` [R6], at most 1 MiB of them. */
function events(server: Server, { conversationId, afterSeq, beforeSeq = Infinity, types, limit = 500 }: Json): Json {
  const log = server.read(conversationId);
  const isForward = afterSeq !== undefined;
  const isWanted = ({ seq, event }: Json) => (isForward ? seq > afterSeq : seq < beforeSeq) && (!types || types.includes(event.type));
  const wanted = log.records.filter(isWanted);
  if (!isForward) wanted.reverse();
  let size = 0;
  const page = wanted.slice(0, limit).filter((record, index) => (size += JSON.stringify(record).length) < MIB || index === 0);
  const truncated = page.length < wanted.length;
  const last = isForward && !truncated ? log.lastSeq : Math.min(beforeSeq - 1, log.lastSeq);
  const [firstSeq, lastSeq] = isForward ? [afterSeq + 1, truncated ? page.at(-1)!.seq : last] : [truncated ? page.at(-1)!.seq : 1, last];
  return { events: isForward ? page : page.reverse(), firstSeq, lastSeq, epoch: log.epoch, truncated };
}

function sendMessage(server: Server, params: Json, later: Later): unknown {
  const agent = server.agent(params.conversationId);
  for (const [name, value] of Object.entries(params.overrides?.options ?? {})) checkOption(name, value, `overrides.options.${name}`);
  const result = repeatable(agent, "conversation/sendMessage", params, () => agent.send(params));
  if (params.wait !== "completed" || result.duplicate) return result; // [K5]
  later.cancel = () => agent.cancel(result.messageId);
  return agent.outcome(result.messageId).then((turn) => ({ ...result, turn, finalText: turn.finalText }));
}

/** A promise is answered after the events [O3]: the result reports an end. */
async function interrupt(server: Server, { conversationId, turnId, clearQueue }: Json): Promise<Json> {
  const agent = server.agent(conversationId);
  const result = agent.interrupt(turnId, clearQueue);
  agent.log.commit();
  return result;
}

function setOption({ log }: Agent, { optionId, value }: Json): Json {
  checkOption(optionId, value, optionId in log.about.options ? "value" : "optionId");
  log.record({ type: "options.changed", values: { [optionId]: value } });
  return { options: optionsOf(log) };
}

function optionsOf({ about }: Conversation): Json[] {
  const choices = (id: string) => (CHOICES[id] ?? [about.options[id]]).map((value: string) => ({ value, label: value }));
  return Object.entries(about.options).map(([id, value]) => ({ id, name: id, category: id, type: "select", value, choices: choices(id) }));
}

function subscribe(server: Server, { conversationId }: Json): Json {
  const agent = server.agent(conversationId);
  agent.subscribe();
  return { lastSeq: agent.log.lastSeq };
}

function unsubscribe(server: Server, { conversationId }: Json): Json {
  server.agent(conversationId).unsubscribe();
  return {};
}

function listApprovals(server: Server, { conversationId }: Json): Json {
  const agents = conversationId ? [server.agent(conversationId)] : server.agents;
  return { pending: agents.flatMap(({ log }) => [...log.pending.values()]) };
}

function respond(server: Server, params: Json): Json {
  const agent = server.agents.find(({ log }) => log.pending.has(params.approvalId) || log.decisions.has(params.approvalId));
  if (!agent) throw new Failure("approvalNotFound", "No approval with this id is here."); // [A7]
  const result = agent.respond(params);
  agent.log.commit();
  return result;
}

await new Server().run();
