/** A line that names another conversation of this window that waits for the user, with a link to it. */

import type { ChangedParams, ConversationInfo } from "oh-daemon-client/protocol";
import { h, icon } from "./dom";
import { call } from "./host";

const N_LISTED = 50;

export class Elsewhere {
  readonly element = h("div.elsewhere", { role: "status", hidden: true });
  private readonly waiting = new Map<string, ConversationInfo>();
  private shown = "";

  constructor(private readonly onOpen: (conversationId: string) => void) {}

  onChanged({ conversation, change }: ChangedParams): void {
    this.waiting.delete(conversation.id);
    if (change !== "deleted" && isWaiting(conversation)) this.waiting.set(conversation.id, conversation);
  }

  /** Reads what waits already: a page that has just opened has heard of nothing, and a new daemon knows better. */
  async load(): Promise<void> {
    const { conversations } = await call("conversation/list", { limit: N_LISTED });
    this.waiting.clear();
    for (const each of conversations) if (isWaiting(each)) this.waiting.set(each.id, each);
  }

  draw(currentId: string | undefined): void {
    const first = [...this.waiting.values()].find(({ id }) => id !== currentId);
    const key = first ? `${first.id} ${first.title}` : "";
    if (key === this.shown) return;
    this.shown = key;
    this.element.hidden = !first;
    if (!first) return;
    this.element.replaceChildren(
      icon("hand"),
      h("span.what", { title: first.title }, `“${first.title}” waits for you`),
      h("button.quiet", { onclick: () => this.onOpen(first.id) }, "Show"),
    );
  }
}

/** Waits for the user, who can answer in this window; a paused turn can have asked before it was held. */
function isWaiting({ status, pendingCount, lock }: ConversationInfo): boolean {
  return lock.mine && (status === "waiting" || (status === "paused" && pendingCount > 0));
}
