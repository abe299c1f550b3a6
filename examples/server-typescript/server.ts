/**
 * A second server of the oh-daemon protocol, written from its documents, with Node's own modules only:
 * `node server.ts --stdio`. What it leaves out is in README.md.
 *
 * [I3] and the like cite the rule of docs/protocol/ that a line keeps. This file has the life of the process,
 * `initialize`, and which conversations there are; methods.ts has the methods.
 */

import * as fs from "node:fs";
import { homedir } from "node:os";
import { basename, join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { Agent, checkOption, SYSTEM } from "./agent.ts";
import { Conversation } from "./conversation.ts";
import { METHODS } from "./methods.ts";
import { functionOf } from "./model.ts";
import { clientTool, pathOf, writeFile, type Tool } from "./tools.ts";
import { check, checkContent, Connection, Ended, Failure, LIMITS, MIB, readMessages, wrong, type Json,
  type Later } from "./wire.ts";

const NAME = { name: "oh-example", version: "1.0.0" };
const ENCODINGS = ["utf-8", "utf-16", "utf-32"];
const PARTS = ["protocolVersion", "client", "features", "events", "settings"];
const FEATURES = ["approvalRequests"];
const NOTIFICATIONS = ["conversation/event", "conversation/delta", "conversation/changed", "conversation/gap"];
const SETTINGS = ["model", "mode", "approval", "llm"];
const LOGS = join(".openhands", "conversations");

export class Server {
  readonly connection = new Connection((method, params, later) => this.#serve(method, params, later));
  #state: "new" | "ready" | "shutdown" = "new";
  #isEnding = false;
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
    if (this.#isEnding) return;
    this.#isEnding = true;
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
    if (!Object.hasOwn(METHODS, method)) throw new Failure("methodNotFound", `There is no method ${method}.`); // [B13]
    const [rules, run] = METHODS[method]!;
    check(params, rules);
    for (const name of ["content", "message"]) checkContent(params[name], name);
    return run(this, params, later);
  }

  #hear(notification: { method: string; params: Json } | undefined): void {
    const { method, params = {} } = notification ?? {};
    if (method === "exit") void this.#stop(this.#state === "shutdown" ? 0 : 1); // [B23]
    if (this.#state !== "ready") return; // [B20]
    const [opened, closed] = [pathsOf([params.textDocument]), pathsOf(params.event?.removed)];
    if (method === "textDocument/didOpen") for (const path of opened) this.#documents.add(path);
    if (method === "textDocument/didClose") for (const path of opened) this.#documents.delete(path);
    if (method === "workspace/didChangeWorkspaceFolders") // [D5]
      this.#folders = [...this.#folders.filter((each) => !closed.includes(each)), ...pathsOf(params.event?.added)];
  }

  // Initialize: rules I

  #initialize(params: any): Json {
    if (this.#state !== "new") throw new Failure("invalidRequest", "This connection is initialized."); // [B21]
    const block = checkedBlock(params);
    const { major = 1 } = block.protocolVersion ?? {};
    const data = { supported: [{ major: 1, minor: 0 }], retry: false };
    if (major !== 1) throw new Failure("unsupportedVersion", "This server speaks version 1.", data); // [I3]
    this.#folders = pathsOf(params.workspaceFolders ?? [{ uri: params.rootUri }]);
    for (const { folder, trusted } of block.trust ?? []) if (trusted) this.#trusted.add(pathOf(folder));
    [this.#state, this.#block] = ["ready", block];
    if (params.processId === process.ppid)
      setInterval(() => process.ppid === params.processId || this.#stop(0), 500).unref(); // [B24]
    const ours = { protocolVersion: data.supported[0], daemon: { ...NAME, pid: process.pid }, // [I2]
      methods: Object.keys(METHODS), notifications: NOTIFICATIONS, limits: LIMITS, // [I4, L1]
      understood: this.#understood() };
    const offered = params.capabilities?.general?.positionEncodings;
    const isOurs = (each: string) => ENCODINGS.includes(each);
    const positionEncoding = (Array.isArray(offered) && offered.find(isOurs)) || "utf-16"; // [I8]
    const workspace = { workspaceFolders: { supported: true, changeNotifications: true } };
    const textDocumentSync = { openClose: true, change: 0 };
    return { capabilities: { positionEncoding, textDocumentSync, workspace, experimental: { ohDaemon: ours } },
      serverInfo: NAME };
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

  close(agent: Agent): void {
    agent.close();
    this.#agents.delete(agent.log.id);
  }

  create(id: string, { folders, options, title, content, metadata = {}, instructions = "", ...more }: Json): Agent {
    const { clientTools = [], maxSteps = 100 } = more;
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
    agent.tools = this.#tools(paths, clientTools);
    log.own();
    fs.writeFileSync(join(place, ".gitignore"), "*\n");
    this.#agents.set(id, agent);
    agent.subscribe(); // [C3]
    const first = content?.find((part: Json) => part.text)?.text.trim().split("\n")[0].slice(0, 60);
    const about = { model: chosen.model, label: chosen.model, systemPrompt: `${SYSTEM}\n${instructions}`,
      tools: agent.tools.map(functionOf) };
    log.record({ type: "conversation.created", title: title ?? first ?? "New conversation", metadata, maxSteps,
      folders: paths.map((path) => pathToFileURL(path).href), options: chosen, agent: about });
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
      const rules = { name: "text 1 64", description: "text? 0 4000", inputSchema: "object?", annotations: "object?" };
      check(tool, rules, `clientTools.${index}.`);
      if (own.some(({ name }) => name === tool.name)) throw wrong(`clientTools.${index}.name`, "unknown");
    }
    return [...own, ...given.map((tool) => clientTool(tool, this.connection))];
  }
}

/** The paths of those that have a `file:` URI; others are no concern of this server. */
function pathsOf(named: unknown): string[] {
  return (Array.isArray(named) ? named : []).flatMap((each) => {
    try {
      return String(each?.uri).startsWith("file:") ? [pathOf(each.uri)] : [];
    } catch {
      return [];
    }
  });
}

/** The client's block, from where it stands [I1], with the types of what is used here [I7]. */
function checkedBlock(params: any): Json {
  check(params, { processId: "integer?", capabilities: "object?", workspaceFolders: "list?",
    initializationOptions: "object?" });
  const isFirst = params.initializationOptions?.ohDaemon !== undefined;
  const block = (isFirst ? params.initializationOptions : params.capabilities?.experimental)?.ohDaemon ?? {};
  const path = `${isFirst ? "initializationOptions" : "capabilities.experimental"}.ohDaemon.`;
  const of = (names: string[], rule: string) => Object.fromEntries(names.map((name) => [name, rule]));
  check(block, { ...of(PARTS, "object?"), trust: "list?" }, path);
  check(block.protocolVersion ?? {}, { major: "integer?" }, `${path}protocolVersion.`);
  check(block.features ?? {}, of(FEATURES, "flag?"), `${path}features.`);
  check(block.events ?? {}, { deltas: "flag?", optOut: "list?" }, `${path}events.`);
  check(block.settings ?? {}, { ...of(SETTINGS, "text?"), llm: "object?" }, `${path}settings.`);
  for (const [index, each] of (block.trust ?? []).entries())
    check(each, { folder: "text", trusted: "flag?" }, `${path}trust.${index}.`);
  return block;
}

await new Server().run();
