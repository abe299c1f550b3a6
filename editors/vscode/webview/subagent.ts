/** Sub-agents: a card that names the agent, its task and its current action, and links there and back. */

import type { ConversationInfo, SubagentItem } from "oh-daemon-client/protocol";
import { STATUS } from "./cards";
import { h, icon } from "./dom";

const ENDED = { failed: "failed", cancelled: "stopped", rejected: "rejected", completed: "done" };

export function subagentCard(
  item: SubagentItem,
  doing: string | undefined,
  open: (conversationId: string) => void,
): HTMLElement {
  const { agent, title, status, conversationId } = item;
  const { icon: name, label } = STATUS[status];
  const words = status in ENDED ? ENDED[status as keyof typeof ENDED] : (doing ?? "working");
  return h(
    "button.card.subagent",
    {
      "data-kind": item.kind,
      "data-status": status,
      title: "Show what this sub-agent does",
      onclick: () => open(conversationId),
    },
    h("span.state", { role: "img", "aria-label": label }, icon(name)),
    h("span.subagent-text", {}, h("span.title", {}, h("b", {}, agent), ` ${title}`), h("span.doing", {}, words)),
    icon("chevron"),
  );
}

/** Shown above the conversation of a sub-agent: the way back to its parent. */
export class ParentLine {
  readonly element: HTMLElement;
  private parentId = "";

  constructor(onOpen: (conversationId: string) => void) {
    this.element = h(
      "nav.parent-line",
      { "aria-label": "Sub-agent", hidden: true },
      h("span.what", {}, "The work of a sub-agent"),
      h("button.quiet", { onclick: () => onOpen(this.parentId) }, icon("back"), "Back"),
    );
  }

  draw(info: ConversationInfo | undefined): void {
    this.parentId = info?.parentId ?? "";
    this.element.hidden = this.parentId === "";
  }
}
