/** The conversation that the panel shows, and the one that is being opened, whose events already arrive. */

import { openStore } from "oh-daemon-client/opening";
import type { Notification, Store } from "oh-daemon-client/store";
import { call } from "./host";

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
    for (const each of new Set([this.store, this.opening?.store]))
      if (each && !each.take(notification)) this.reopen(each.info.id);
  }

  private async read(conversationId: string, mine: Opening, onReached: () => void): Promise<Opened | undefined> {
    const read = openStore(call, conversationId, (store) => {
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
}
