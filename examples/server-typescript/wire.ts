/**
 * What any server of the protocol needs below its methods: errors, checks of params, framing, and one connection.
 *
 * Rules B, E and L of docs/protocol/, cited as in [B5]. It knows no method, and nothing of conversations.
 */

import { randomUUID } from "node:crypto";

export type Json = Record<string, any>;

export const MIB = 2 ** 20;
export const LIMITS = { maxMessageBytes: 16 * MIB, textPartBytes: MIB, partsPerMessage: 64, eventsPerPage: 500,
  conversationsPerPage: 100, queuedMessages: 32, requestsInFlight: 64 };
export const newId = () => randomUUID().replaceAll("-", "");
export const isObject = (value: any) => typeof value === "object" && value !== null && !Array.isArray(value);

// ---- Errors and params: rules E, and B15 to B18 ----

const CODES = { workspaceUntrusted: -31001, conversationNotFound: -31002, conversationBusy: -31003,
  conversationLocked: -31004, turnMismatch: -31005, invalidState: -31006, authRequired: -31008,
  modelUnavailable: -31009, providerError: -31010, overloaded: -31013, payloadTooLarge: -31014, cursorInvalid: -31015,
  idempotencyConflict: -31016, approvalNotFound: -31021, unsupportedVersion: -31022, shuttingDown: -31025,
  approvalStale: -31027, toolError: -31028, network: -31029, rateLimit: -31030, serverNotInitialized: -32002,
  invalidRequest: -32600, methodNotFound: -32601, invalidParams: -32602, internalError: -32603, parseError: -32700,
  requestCancelled: -32800, requestFailed: -32803 };

/** What a client or the log is told: a kind with its code, and a sentence for the user [E1, E2]. */
export class Failure extends Error {
  readonly answer: Json;

  constructor(kind: keyof typeof CODES, message: string, data: Json = {}) {
    super(message);
    const retryable = ["network", "rateLimit", "overloaded"].includes(kind);
    this.answer = { code: CODES[kind], message, data: { kind, retryable, ...data } };
  }
}

/** Whatever else is thrown is a bug: the client gets a reference, and stderr the trace [E6]. */
export function failureOf(error: any): Failure {
  if (error instanceof Failure) return error;
  const reference = newId().slice(0, 8);
  process.stderr.write(`${reference}: ${error?.stack ?? error}\n`);
  return new Failure("internalError", `This is a bug of the server; see ${reference} on its stderr.`, { reference });
}

const WRONG = { missing: "must be there", wrong_type: "must be of another type", wrong_size: "is too short or too long",
  out_of_range: "is too small or too large", unknown: "names nothing that there is", not_editable: "cannot be changed",
  not_a_path: "must be a path or file URI" };

/** Name the field by its path from `params`, and never its value [E3, E4]. */
export function wrong(path: string, code: keyof typeof WRONG): Failure {
  const errors = [{ path, code, message: WRONG[code] }];
  return new Failure("invalidParams", `${path}: ${WRONG[code]}`, { errors });
}

const TYPES: Record<string, (value: any) => boolean> = { list: Array.isArray, integer: Number.isInteger,
  text: (value) => typeof value === "string", flag: (value) => typeof value === "boolean",
  object: (value) => isObject(value) || (Array.isArray(value) && !value.length) }; // [B15]

export type Rules = Record<string, string>;

/** Check fields by rules such as `integer? 1 100` or `step|now?`; other fields are ignored [B16, B18]. */
export function check(fields: any, rules: Rules, path = ""): void {
  if (!TYPES.object!(fields)) throw wrong(path.slice(0, -1) || "params", "wrong_type");
  for (const [name, rule] of Object.entries(rules)) {
    const [kind, min, max] = rule.split(" ");
    const [type, value, at] = [kind!.replace("?", ""), fields[name], path + name];
    if (value === undefined || value === null) {
      if (kind!.endsWith("?")) continue;
      throw wrong(at, "missing");
    }
    if (!(TYPES[type] ?? TYPES.text)!(value)) throw wrong(at, "wrong_type");
    if (!TYPES[type] && !type.split("|").includes(value)) throw wrong(at, "unknown"); // [X9]
    const size = type === "integer" ? value : value.length;
    if (size < Number(min) || size > Number(max)) throw wrong(at, type === "integer" ? "out_of_range" : "wrong_size");
  }
}

/** Check a message, which must say something [C7]. */
export function checkContent(parts: Json[] | undefined, path = "content"): void {
  for (const [index, part] of (parts ?? []).entries()) {
    check(part, { type: "text|resource|resourceLink|selection|diagnostics" }, `${path}.${index}.`);
    const rules: Rules = part.type === "text" ? { text: `text 0 ${LIMITS.textPartBytes}` } : { uri: "text 1" };
    check(part, rules, `${path}.${index}.${part.type}.`);
  }
  if (parts?.every((part) => part.type === "text" && !part.text.trim())) throw wrong(path, "wrong_size");
}

// ---- Framing: rules B1 to B7 ----

export class Ended extends Error {}
export class Unreadable extends Error {}

/** A message, or why there is none, with the id that could be read. */
interface Frame { message?: unknown; failure?: Failure; id?: string | number | null }

/** Yield each message, or the failure to answer in its place. Throws `Ended` or `Unreadable` [B6]. */
export async function* readMessages(stream: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  const source = stream[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  async function take(size: number): Promise<Buffer> {
    const parts = [rest];
    for (let length = rest.length; length < size; length += parts.at(-1)!.length) {
      const { value, done } = await source.next();
      if (done) throw new Ended();
      parts.push(value);
    }
    const all = Buffer.concat(parts);
    rest = all.subarray(size);
    return all.subarray(0, size);
  }
  async function line(limit: number): Promise<string> {
    while (!rest.includes("\n") && rest.length <= limit) rest = Buffer.concat([await take(rest.length + 1), rest]);
    const end = rest.indexOf("\n");
    if (end < 0 || end > limit) throw new Unreadable("a header block is above 64 KiB");
    return (await take(end + 1)).toString("latin1").trim();
  }
  for (let isLost = false; ; ) {
    const length = await readLength(line, isLost);
    if (length === undefined) {
      if (!isLost) yield { failure: new Failure("parseError", "The header has no valid Content-Length.") };
      isLost = true; // Until a whole message has been read, further blocks stay unanswered [B4].
    } else if (length > LIMITS.maxMessageBytes) {
      if (length > 1024 * MIB) throw new Unreadable("a length is above 1 GiB");
      const id = idIn(await take(4096));
      for (let left = length - 4096; left > 0; left -= MIB) await take(Math.min(left, MIB));
      yield { failure: new Failure("payloadTooLarge", "A message has at most 16 MiB."), id }; // [B5]
    } else {
      const message = parse(await take(length));
      isLost = message === undefined;
      yield isLost ? { failure: new Failure("parseError", "The body is not JSON.") } : { message };
    }
  }
}

/** Return the length in a header block, if any. Once lost, the next line that ends in a length begins one. */
async function readLength(line: (limit: number) => Promise<string>, isLost: boolean): Promise<number | undefined> {
  let length: number | undefined;
  for (let size = 0, isEmpty = true; ; ) {
    const next = await line(65536 - size);
    if (!next && (length !== undefined || !(isLost || isEmpty))) return length;
    const field = (isLost ? /(content-length):\s*(\d+)$/i : /^([\w-]+):\s*(.*)$/).exec(next);
    if (next && !field && !isLost) throw new Unreadable("what came is no header");
    const [, name = "", value = ""] = field ?? [];
    if (name.toLowerCase() === "content-length") length = /^\d+$/.test(value) ? Number(value) : undefined; // [B2]
    size += next.length + 1;
    isEmpty &&= !next;
  }
}

export function parse(body: Buffer): any {
  try {
    const json = new TextDecoder("utf-8", { fatal: true }).decode(body);
    const mend = (_: string, value: any) => (typeof value === "string" ? value.toWellFormed() : value); // [B7]
    return JSON.parse(json, json.includes("\\u") ? mend : undefined);
  } catch {
    return undefined;
  }
}

/** Return the id in the beginning of a message, if only plain fields stand before it. */
function idIn(head: Buffer): string | number | null {
  const field = String.raw`\s*"[^"\\]*"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s"{}[\],]+)\s*`;
  const plain = new RegExp(`^\\s*\\{${field}(,${field})*(?=,)`).exec(head.toString())?.[0] ?? "{";
  const id = parse(Buffer.from(`${plain}}`))?.id;
  return typeof id === "string" || typeof id === "number" ? id : null;
}

// ---- The connection: rules B8 to B19, L ----

/** A request that is answered later. */
export interface Later { cancel?: () => void }

const ALWAYS_SERVED = new Set(["conversation/interrupt", "conversation/pause", "conversation/close", "approval/respond",
  "input/respond", "shutdown"]);

type Serve = (method: string, params: any, later: Later) => unknown;

export class Connection {
  readonly #out = process.stdout;
  readonly #open = new Map<string | number, Later>();
  readonly #asked = new Map<number, (answer: Json) => void>();
  readonly #gaps = new Map<string, { fromSeq: number; toSeq: number }>();
  #held: string[] | undefined; // What must follow the answer to the request that is being served [O3].
  #lastId = 0;
  readonly #serve: Serve;

  constructor(serve: Serve) {
    this.#serve = serve;
    this.#out.on("drain", () => { // [L4]
      for (const [conversationId, gap] of this.#gaps) this.notify("conversation/gap", { conversationId, ...gap });
      this.#gaps.clear();
    });
  }

  /** How many bytes the client has yet to read. Nobody waits for it [L3]. */
  get unread(): number { return this.#out.writableLength; }

  /** Take a message; return the notification, if it is one. */
  receive(message: any): { method: string; params: Json } | undefined {
    const id = ["string", "number"].includes(typeof message?.id) ? message.id : null; // [B9]
    const isMessage = isObject(message) && message.jsonrpc === "2.0";
    if (isMessage && message.method === undefined && ("result" in message || "error" in message)) {
      this.#asked.get(id)?.(message); // Else it answers no open request [B13].
    } else if (!isMessage || typeof message.method !== "string" || ("id" in message && id === null)) {
      const failure = new Failure("invalidRequest", "This is no JSON-RPC message, or a batch."); // [B10]
      this.answer(id, { error: failure.answer });
    } else if (id !== null) this.#onRequest(id, message.method, message.params ?? {});
    else if (message.method === "$/cancelRequest") this.#open.get(message.params?.id)?.cancel?.(); // [B19]
    else return { method: message.method, params: isObject(message.params) ? message.params : {} };
  }

  #onRequest(id: string | number, method: string, params: any): void {
    this.#held = [];
    try {
      if (this.#open.has(id)) throw new Failure("invalidRequest", "A request with this id is still open."); // [B11]
      if (this.#open.size >= LIMITS.requestsInFlight && !ALWAYS_SERVED.has(method)) // [L2]
        throw new Failure("overloaded", "Too many requests are open.", { retryAfterMs: 100 });
      const later: Later = {};
      const result = this.#serve(method, params, later);
      if (!(result instanceof Promise)) this.answer(id, { result });
      else {
        this.#open.set(id, later);
        const finish = (outcome: Json) => this.#open.delete(id) && this.answer(id, outcome); // Once [B8].
        result.then((value) => finish({ result: value }), (error) => finish({ error: failureOf(error).answer }));
      }
    } catch (error) {
      this.answer(id, { error: failureOf(error).answer });
    }
    const held = this.#held;
    this.#held = undefined;
    for (const body of held) this.#post(body);
  }

  answer(id: string | number | null, outcome: Json): void {
    this.#write(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
  }

  notify(method: string, params: Json): void {
    this.#post(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  /** Ask the client; what is returned withdraws the request. Ids are independent of the client's [B12]. */
  ask(method: string, params: Json, onAnswer: (answer: Json) => void): () => void {
    const id = ++this.#lastId;
    this.#asked.set(id, (answer) => this.#asked.delete(id) && onAnswer(answer));
    this.#post(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return () => this.#asked.delete(id) && this.notify("$/cancelRequest", { id });
  }

  /** Send a record as it stands in the log [R1], unless the client is too slow. */
  event(conversationId: string, epoch: string, seq: number, line: string): void {
    const fromSeq = this.#gaps.get(conversationId)?.fromSeq ?? seq;
    const params = `{"conversationId":"${conversationId}","epoch":"${epoch}",${line.slice(1)}`;
    if (this.unread > 8 * MIB || fromSeq < seq) this.#gaps.set(conversationId, { fromSeq, toSeq: seq });
    else this.#post(`{"jsonrpc":"2.0","method":"conversation/event","params":${params}}`);
  }

  /** Wait until no more than this is unread. */
  async caughtUp(bytes: number): Promise<void> {
    while (this.unread > bytes) await new Promise((then) => setTimeout(then, 10));
  }

  /** Answer what is open; the client has a moment to read it [B25]. */
  async end(): Promise<void> {
    const error = new Failure("shuttingDown", "The server is shutting down.").answer;
    for (const id of this.#open.keys()) this.answer(id, { error });
    await Promise.race([this.caughtUp(0), new Promise((then) => setTimeout(then, 1500))]);
  }

  #post(body: string): void {
    if (this.#held) this.#held.push(body);
    else this.#write(body);
  }

  #write(body: string): void {
    this.#out.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`); // [B1]
  }
}
