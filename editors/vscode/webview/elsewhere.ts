/** A line that names another conversation of this window that waits for the user, with a link to it. */

import type { ChangedParams, ConversationInfo } from "../src/protocol";
import { h, icon } from "./dom";

export class Elsewhere {
  readonly element = h("div.elsewhere", { role: "status", hidden: true });
  private readonly waiting = new Map<string, ConversationInfo>();
  private shown = "";

  constructor(private readonly onOpen: (conversationId: string) => void) {}

  onChanged({ conversation, change }: ChangedParams): void {
    if (change !== "deleted" && conversation.status === "waiting") this.waiting.set(conversation.id, conversation);
    else this.waiting.delete(conversation.id);
  }

  draw(currentId: string | undefined): void {
    const first = [...this.waiting.values()].find(({ id }) => id !== currentId);
    const key = first ? `${first.id} ${first.title}` : "";
    if (key === this.shown) return;
    this.shown = key;
    this.element.hidden = !first;
    if (!first) return;
    this.element.replaceChildren(icon("hand"), h("span.what", { title: first.title }, `“${first.title}” waits for you`),
      h("button.quiet", { onclick: () => this.onOpen(first.id) }, "Show"));
  }
}
