/** One conversation: messages to it, its events in order, and its state, which is the fold of these events. */

import type { DaemonClient } from "./connection.js";
import { openStore } from "./opening.js";
import type { EventParams, Part, SendMessageParams, SendMessageResult } from "./protocol.js";
import type { Notification, Store } from "./store.js";

export class Conversation {
  constructor(
    private readonly daemon: DaemonClient,
    readonly id: string,
  ) {}

  /** Sends a message: it starts a turn, or waits for one, or steers it; `delivery` says which. */
  send(
    content: string | readonly Part[],
    more: Omit<SendMessageParams, "conversationId" | "content"> = {},
  ): Promise<SendMessageResult> {
    return this.daemon.request("conversation/sendMessage", {
      conversationId: this.id,
      content: partsOf(content),
      ...more,
    });
  }

  async pause(): Promise<void> {
    await this.daemon.request("conversation/pause", { conversationId: this.id });
  }

  async resume(): Promise<void> {
    await this.daemon.request("conversation/resume", { conversationId: this.id });
  }

  async interrupt(): Promise<void> {
    await this.daemon.request("conversation/interrupt", { conversationId: this.id });
  }

  /**
   * Yields the events after this one, in order and without gaps: first those of the log, then each as it comes. What a
   * slow connection left out is read from the log. Ends with the connection; throws why if nobody closed that.
   */
  async *events(afterSeq = 0): AsyncGenerator<EventParams> {
    const live: EventParams[] = [];
    let wake = (): void => undefined;
    let [lastSeq, isBehind, isOver] = [afterSeq, true, false];
    const ends = [
      this.daemon.on("conversation/event", (params) => {
        if (params.conversationId === this.id) live.push(params);
        wake();
      }),
      this.daemon.on("conversation/gap", ({ conversationId }) => {
        isBehind ||= conversationId === this.id;
        wake();
      }),
    ];
    const over = this.daemon.closed.then((why) => {
      isOver = true;
      wake();
      return why;
    });
    try {
      for (;;) {
        if (isBehind) {
          isBehind = false;
          for await (const each of this.read(lastSeq)) {
            lastSeq = each.seq;
            yield each;
          }
        }
        const next = live.shift();
        if (next && next.seq > lastSeq) {
          // An event is in the log before anybody hears of it, so this one is read as well.
          isBehind = next.seq > lastSeq + 1 && !this.daemon.leavesOut;
          if (isBehind) continue;
          lastSeq = next.seq;
          yield next;
        } else if (!next && isOver) {
          const why = await over;
          if (why) throw why;
          return;
        } else if (!next && !isBehind) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    } finally {
      for (const end of ends) end();
    }
  }

  /** Keeps its state up to date, and calls with it after each change; returns what ends that. */
  async follow(onChange: (state: Store) => void): Promise<() => void> {
    const { daemon, id } = this;
    let state: Store | undefined;
    const open = async (): Promise<void> => {
      onChange(
        await openStore(daemon.request.bind(daemon), id, (opened) => {
          state = opened;
        }),
      );
    };
    const take = (notification: Notification): void => {
      if (!state) return;
      if (state.take(notification)) return onChange(state);
      // What comes until it is open again is in the log by then.
      state = undefined;
      open().catch(() => undefined);
    };
    const ends = (
      ["conversation/event", "conversation/delta", "conversation/changed", "conversation/gap"] as const
    ).map((method) => daemon.on(method, (params) => take({ method, params } as Notification)));
    await open();
    return () => {
      for (const end of ends) end();
    };
  }

  /** Yields what the log has after this event. */
  private async *read(afterSeq: number): AsyncGenerator<EventParams> {
    const conversationId = this.id;
    for (let isMore = true; isMore; ) {
      const page = await this.daemon.request("conversation/events", { conversationId, afterSeq });
      for (const record of page.events) yield { conversationId, epoch: page.epoch, ...record };
      isMore = page.truncated;
      afterSeq = page.lastSeq;
    }
  }
}

/** Returns the text as the content of a message. */
export function partsOf(content: string | readonly Part[]): readonly Part[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
