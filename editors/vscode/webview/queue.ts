/** Messages that wait for the next step or the next turn. Each can be changed, moved up, sent now, or removed. */

import type { Part, QueuedMessage } from "oh-daemon-client/protocol";
import { textOf } from "./cards";
import { h, icon, type IconName } from "./dom";
import { call, report, run } from "./host";

export class QueueBox {
  readonly element = h("ul.queue-box", { "aria-label": "Queued messages" });
  private shown = "";

  draw(conversationId: string, queue: readonly QueuedMessage[]): void {
    const key = JSON.stringify(queue);
    // The box is not redrawn while the user changes a message.
    if (this.shown === key || this.element.querySelector("input")) return;
    this.shown = key;
    // In the order in which they reach the agent.
    const inOrder = [...queue].sort((a, b) => Number(a.delivery === "queue") - Number(b.delivery === "queue"));
    const focused = this.element.contains(document.activeElement) ? document.activeElement?.ariaLabel : undefined;
    this.element.replaceChildren(
      ...inOrder.map((message, n) => {
        const before = inOrder[n - 1];
        const place = before?.delivery === "queue" ? queue.indexOf(before) : undefined;
        return this.row(conversationId, message, place);
      }),
    );
    if (focused === undefined) return;
    const buttons = [...this.element.querySelectorAll("button")];
    (buttons.find(({ ariaLabel }) => ariaLabel === focused) ?? buttons[0])?.focus();
  }

  /** `earlier` is the position in the queue of the message before this one, if the two can change places. */
  private row(conversationId: string, message: QueuedMessage, earlier: number | undefined): HTMLElement {
    const { messageId, content, delivery } = message;
    const text = textOf(content) || "attachments";
    const isNext = delivery === "queue";
    const act = (op: "remove" | "sendNow") => () => run("conversation/queue", { conversationId, op, messageId });
    const move = (position: number) => run("conversation/queue", { conversationId, op: "move", messageId, position });
    const button = (name: IconName, label: string, onclick: () => void) =>
      h("button.quiet", { title: label, "aria-label": `${label}: ${text}`, onclick }, icon(name));
    const item: HTMLElement = h(
      "li",
      {},
      h(
        "span.when",
        { title: isNext ? "Starts a turn of its own after this one" : "Reaches the agent before its next step" },
        isNext ? "Next" : "Soon",
      ),
      h("span.queued", { title: text }, text),
      button("pencil", "Edit", () => this.edit(item, conversationId, message)),
      earlier !== undefined && button("up", "Move up", () => move(earlier)),
      isNext && button("send", "Send now", act("sendNow")),
      button("cross", "Remove", act("remove")),
    );
    return item;
  }

  private edit(item: HTMLElement, conversationId: string, { messageId, content }: QueuedMessage): void {
    const field = h("input.rename", { "aria-label": "Queued message", value: textOf(content) });
    const end = (isSaved: boolean) => {
      const text = field.value.trim();
      field.remove();
      this.shown = "";
      const others = content.filter((each) => each.type !== "text");
      const changed: Part[] = [...(text === "" ? [] : [{ type: "text" as const, text }]), ...others];
      const params = {
        conversationId,
        messageId,
        ...(isSaved && changed.length > 0 ? { op: "edit" as const, content: changed } : { op: "list" as const }),
      };
      call("conversation/queue", params)
        .then(({ queue }) => this.draw(conversationId, queue))
        .catch(report);
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
      event.preventDefault();
      end(event.key === "Enter");
    });
    item.replaceChildren(field);
    field.focus();
  }
}
