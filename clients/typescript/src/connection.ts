/**
 * One connection to a daemon: requests with typed answers, notifications, and what the daemon asks. It knows messages,
 * and nothing of what a conversation is; what the daemon asks and nobody answers is refused.
 */

import { Conversation, partsOf } from "./conversation.js";
import { frame, messages } from "./framing.js";
import type {
  ClientBlock,
  ClientNotifications,
  ClientRequests,
  ErrorData,
  Notifications,
  Part,
  Requests,
  ServerBlock,
  StartParams,
} from "./protocol.js";

const METHOD_NOT_FOUND = -32601;
const INTERNAL_ERROR = -32603;
const REQUEST_CANCELLED = -32800;
const END_MS = 5000;

/** What has the bytes of a daemon: a child's stdout and stdin, a socket twice, or whatever else there is. */
export type Incoming = AsyncIterable<Uint8Array>;
export interface Outgoing {
  write(frame: Uint8Array): unknown;
  end(): unknown;
}

/** How a connection ends that does not end by itself, and what is known of why it did. */
export interface End {
  kill?(): void;
  reason?(): Promise<string>;
}

/** What `initialize` says of this client. */
export interface Hello extends ClientBlock {
  /** Absolute paths, or URIs. */
  folders?: readonly string[];
}

/** An error that the daemon answered. `data` has its `kind`, a `hint` and whether it is `retryable`. */
export class DaemonError extends Error {
  override readonly name = "DaemonError";
  constructor(
    message: string,
    readonly code: number,
    readonly data: Partial<ErrorData> = {},
  ) {
    super(message);
  }
}

type Id = string | number;
interface Message {
  id?: Id | null;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { message: string; code: number; data?: ErrorData };
}
interface Open {
  resolve: (result: unknown) => void;
  reject: (error: Error) => void;
}
type Handler = (params: unknown, signal: AbortSignal) => unknown;

export class DaemonClient {
  /** Settles when there is no connection any more, with why if nobody closed it. */
  readonly closed: Promise<Error | undefined>;
  /** Whether events do not come that this client does not want, so that their numbers have gaps. */
  leavesOut = false;
  private isClosed = false;
  private isClosing = false;
  private nextId = 1;
  private readonly open = new Map<Id, Open>();
  private readonly handlers = new Map<string, Handler>();
  private readonly listeners = new Map<string, Set<(params: unknown) => void>>();
  /** The daemon's requests that are being answered. */
  private readonly asked = new Map<Id, AbortController>();

  constructor(
    incoming: Incoming,
    private readonly outgoing: Outgoing,
    private readonly end: End = {},
  ) {
    this.closed = this.read(incoming);
  }

  /** Says hello, as every client must first. Returns what the daemon can do. */
  async initialize({ folders = [], client, ...block }: Hello = {}): Promise<ServerBlock> {
    this.leavesOut = (block.events?.optOut ?? []).length > 0;
    const answer = await this.call("initialize", {
      processId: null,
      capabilities: { general: { positionEncodings: ["utf-16"] } },
      workspaceFolders: folders.map(folderOf),
      initializationOptions: { ohDaemon: { client: { kind: "script", ...client }, ...block } },
    });
    this.write({ method: "initialized", params: {} });
    // Data enters here, as in `request`.
    return (answer as { capabilities: { experimental: { ohDaemon: ServerBlock } } }).capabilities.experimental.ohDaemon;
  }

  /** Begins a conversation. Its events come from the first one, whenever somebody begins to read them. */
  async start({
    content,
    ...params
  }: Omit<StartParams, "content"> & { content?: string | readonly Part[] } = {}): Promise<Conversation> {
    const started = await this.request("conversation/start", {
      ...params,
      ...(content !== undefined && { content: partsOf(content) }),
    });
    return new Conversation(this, started.conversation.id);
  }

  /** Opens a conversation that there is already. */
  async resume(conversationId: string): Promise<Conversation> {
    await this.request("conversation/open", { conversationId, replay: "none" });
    return new Conversation(this, conversationId);
  }

  /** Asks, and waits for the result. Rejects with a `DaemonError`, or with why the connection has ended. */
  async request<M extends keyof Requests>(
    method: M,
    params: Requests[M][0],
    signal?: AbortSignal,
  ): Promise<Requests[M][1]> {
    // Data enters here: the daemon's contract defines the result of this method.
    return (await this.call(method, params, signal)) as Requests[M][1];
  }

  /** Notifies the daemon, also of what LSP has, such as `textDocument/didOpen`. */
  notify<M extends string>(
    method: M,
    params: M extends keyof ClientNotifications ? ClientNotifications[M] : unknown,
  ): void {
    this.write({ method, params });
  }

  /** Calls the listener with each such notification, in order; returns what ends that. */
  on<M extends keyof Notifications>(method: M, listener: (params: Notifications[M]) => void): () => void {
    const listeners = this.listeners.get(method) ?? new Set();
    this.listeners.set(method, listeners);
    // Data enters here, as above.
    const each = (params: unknown) => listener(params as Notifications[M]);
    listeners.add(each);
    return () => listeners.delete(each);
  }

  /** Answers such requests of the daemon; `signal` says that it does not wait for the answer any more. */
  answer<M extends keyof ClientRequests>(
    method: M,
    handler: (
      params: ClientRequests[M][0],
      signal: AbortSignal,
    ) => ClientRequests[M][1] | Promise<ClientRequests[M][1]>,
  ): void {
    // Data enters here, as above.
    this.handlers.set(method, (params, signal) => handler(params as ClientRequests[M][0], signal));
  }

  /** A request of LSP, or one that this version of the types does not have. */
  call(method: string, params: unknown = {}, signal?: AbortSignal): Promise<unknown> {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      if (this.isClosed) return void this.closed.then((why) => reject(why ?? gone()));
      this.open.set(id, { resolve, reject });
      this.write({ id, method, params });
      signal?.addEventListener(
        "abort",
        () => this.open.has(id) && this.write({ method: "$/cancelRequest", params: { id } }),
      );
    });
  }

  /** Ends the daemon, or this connection to it. */
  async close(): Promise<void> {
    this.isClosing = true;
    const timer = setTimeout(() => this.end.kill?.(), END_MS);
    await this.call("shutdown").catch(() => undefined);
    this.write({ method: "exit", params: {} });
    this.outgoing.end();
    await this.closed;
    clearTimeout(timer);
  }

  private async read(incoming: Incoming): Promise<Error | undefined> {
    let why: Error | undefined;
    try {
      for await (const message of messages(incoming)) this.take(message as Message);
    } catch (error) {
      why = error instanceof Error ? error : new Error(String(error));
    }
    this.isClosed = true;
    if (why) this.end.kill?.();
    const reason = await this.end.reason?.();
    why = this.isClosing ? undefined : (why ?? new Error(reason ?? "the daemon has ended"));
    for (const { reject } of this.open.values()) reject(why ?? gone());
    for (const each of this.asked.values()) each.abort();
    return why;
  }

  private take({ id, method, params, result, error }: Message): void {
    if (method === undefined) {
      const open = id == null ? undefined : this.open.get(id);
      if (id != null) this.open.delete(id);
      if (error) open?.reject(new DaemonError(error.message, error.code, error.data));
      else open?.resolve(result);
    } else if (id != null) {
      void this.onRequest(id, method, params);
    } else if (method === "$/cancelRequest") {
      this.asked.get((params as { id: Id }).id)?.abort();
    } else {
      for (const listener of this.listeners.get(method) ?? []) listener(params);
    }
  }

  private async onRequest(id: Id, method: string, params: unknown): Promise<void> {
    const handler = this.handlers.get(method);
    if (!handler) return this.write({ id, error: { code: METHOD_NOT_FOUND, message: `this client has no ${method}` } });
    const controller = new AbortController();
    this.asked.set(id, controller);
    try {
      this.write({ id, result: (await handler(params, controller.signal)) ?? {} });
    } catch (error) {
      const code = controller.signal.aborted ? REQUEST_CANCELLED : INTERNAL_ERROR;
      this.write({ id, error: { code, message: String(error) } });
    } finally {
      this.asked.delete(id);
    }
  }

  private write(message: Message): void {
    if (!this.isClosed) this.outgoing.write(frame({ jsonrpc: "2.0", ...message }));
  }
}

/** Connects to a daemon over two streams of bytes. */
export function connect(incoming: Incoming, outgoing: Outgoing, end?: End): DaemonClient {
  return new DaemonClient(incoming, outgoing, end);
}

function folderOf(folder: string): { uri: string; name: string } {
  const uri = folder.includes("://") ? folder : `file://${folder.split("/").map(encodeURIComponent).join("/")}`;
  return { uri, name: folder.split("/").at(-1) ?? folder };
}

function gone(): Error {
  return new Error("the connection to the daemon is closed");
}
