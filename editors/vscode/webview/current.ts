/** The conversation that the panel shows, and the one that is being opened, whose events already arrive. */

import type { Notification } from "../src/messages";
import { openStore } from "./opening";
import type { Store } from "./store";

type OfConversation = Exclude<Notification, { method: "daemon/statusChanged" | "mcp/statusChanged" | "port/changed" }>;
interface Opened {
  /** The conversation that was shown until then. */
  formerId: string | undefined;
  error?: unknown;
}
interface Opening {
  store?: Store;
  done?: Promise<unknown>;
}

export class Current {
  store: Store | undefined;
  /** Undefined when none is being opened; of several only the last one counts. */
  private opening: Opening | undefined;

  constructor(private readonly reopen: (conversationId: string) => void) {}

  /** Settles once the conversation that the user asked for last is open, or cannot be opened. */
  get settled(): Promise<unknown> {
    return Promise.resolve(this.opening?.done);
  }

  /** Returns undefined if another was asked for meanwhile; after an error, none is shown. */
  open(conversationId: string, onReached: () => void): Promise<Opened | undefined> {
    const mine: Opening = {};
    this.opening = mine;
    const done = this.read(conversationId, mine, onReached);
    mine.done = done;
    return done;
  }

  forget(): void {
    this.opening = undefined;
    this.store = undefined;
  }

  take(notification: Notification): void {
    const { method } = notification;
    if (method === "daemon/statusChanged" || method === "mcp/statusChanged" || method === "port/changed") return;
    for (const each of new Set([this.store, this.opening?.store])) if (each) this.fold(each, notification);
  }

  private async read(conversationId: string, mine: Opening, onReached: () => void): Promise<Opened | undefined> {
    const read = openStore(conversationId, (store) => {
      mine.store = store;
      onReached();
    });
    const { store, error } = await read.then(
      (store) => ({ store, error: undefined }),
      (error: unknown) => ({ store: undefined, error }),
    );
    if (this.opening !== mine) return undefined;
    const formerId = this.store?.info.id;
    this.opening = undefined;
    this.store = store;
    return { formerId, error };
  }

  private fold(into: Store, { method, params }: OfConversation): void {
    if (method === "conversation/changed") {
      if (params.conversation.id !== into.info.id) return;
      const wasReadOnly = into.isReadOnly;
      into.onChanged(params.conversation);
      // The process that held the conversation is gone, so it can be taken over.
      const { mine, pid } = params.conversation.lock;
      if (wasReadOnly && (mine || pid === undefined)) this.reopen(into.info.id);
      return;
    }
    if (params.conversationId !== into.info.id) {
      if (method === "conversation/event") into.onOther(params);
      return;
    }
    if (method === "conversation/delta") into.onDelta(params);
    else if (method === "conversation/gap" || !into.onRecord(params)) this.reopen(into.info.id);
  }
}
