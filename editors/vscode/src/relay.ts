/** Passes notifications on to a page, in batches, and keeps the text of items that still stream, which is in no log yet. */

import type { ErrorInfo, Item, OpenResult } from "oh-daemon-client/protocol";
import type { Notification } from "oh-daemon-client/store";

const BATCH_MS = 16;

export class Relay {
  private batch: Notification[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The text so far of each item that is streaming, by item id. */
  private readonly live = new Map<string, string>();

  constructor(private readonly post: (batch: readonly Notification[]) => void) {}

  /** Takes a notification of the daemon; while no page is there, only what streams is kept of it. */
  take(notification: Notification, isPageThere: boolean): void {
    this.remember(notification);
    if (!isPageThere) return;
    const last = this.batch.at(-1);
    // Consecutive pieces of the same text are merged into one.
    if (
      notification.method === "conversation/delta" &&
      last?.method === "conversation/delta" &&
      last.params.itemId === notification.params.itemId &&
      last.params.channel === notification.params.channel
    ) {
      last.params = { ...last.params, text: last.params.text + notification.params.text };
    } else {
      this.batch.push(notification);
    }
    this.timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { batch } = this;
    this.batch = [];
    if (batch.length > 0) this.post(batch);
  }

  withLiveText(opened: OpenResult): OpenResult {
    const items = (opened.items ?? []).map((item): Item => {
      const text = this.live.get(item.id);
      if (text === undefined) return item;
      if ("text" in item) return { ...item, text };
      return item.kind === "command" ? { ...item, content: [{ type: "text", text }] } : item;
    });
    return { ...opened, items };
  }

  /** The daemon is gone, and with it what streamed. */
  forget(): void {
    this.live.clear();
  }

  dispose(): void {
    clearTimeout(this.timer);
  }

  private remember({ method, params }: Notification): void {
    if (method === "conversation/delta") {
      this.live.set(params.itemId, (this.live.get(params.itemId) ?? "") + params.text);
    }
    if (method === "conversation/event" && params.event.type === "item.completed")
      this.live.delete(params.event.item.id);
  }
}

export function errorInfo(error: unknown): ErrorInfo {
  if (!(error instanceof Error)) return { code: 0, kind: "client", message: String(error), retryable: false };
  const data = "data" in error ? (error.data as Partial<ErrorInfo> | undefined) : undefined;
  const code = "code" in error && typeof error.code === "number" ? error.code : 0;
  const info = { code, kind: data?.kind ?? "client", message: error.message, retryable: data?.retryable ?? false };
  return { ...info, ...(data?.hint && { hint: data.hint }) };
}
