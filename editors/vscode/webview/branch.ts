/** The actions at a message of the user: fork the conversation before it, or go back to before it. */

import type { Part, UserMessageItem } from "oh-daemon-client/protocol";
import { h, type IconName, icon } from "./dom";
import { call, hasEditor, report } from "./host";

export interface BranchActions {
  open: (conversationId: string) => Promise<void>;
  startNew: () => void;
  /** The message is no longer in the conversation; its content goes back into the input. */
  returned: (content: readonly Part[]) => void;
}

export class Branches {
  constructor(private readonly actions: BranchActions) {}

  /** Makes the buttons, which are visible while the message has the pointer or the keyboard focus. */
  buttons(item: UserMessageItem, conversationId: string): HTMLElement {
    const button = (name: IconName, label: string, act: () => Promise<void>) =>
      h("button.quiet", { title: label, "aria-label": label, onclick: () => act().catch(report) }, icon(name));
    return h(
      "div.message-actions",
      {},
      hasEditor && button("undo", "Go back to before this message", () => this.goBack(item, conversationId)),
      button("fork", "Fork: say it differently in a copy of the conversation up to here", () =>
        this.fork(item, conversationId),
      ),
    );
  }

  /** Opens a copy of the conversation up to before the message, which the user can change and send there. */
  private async fork({ id, content }: UserMessageItem, conversationId: string): Promise<void> {
    const before = (await call("conversation/read", { conversationId, before: id, limit: 1 })).items.at(-1);
    if (before) {
      const { conversation } = await call("conversation/fork", { conversationId, atItemId: before.id });
      await this.actions.open(conversation.id);
    } else {
      this.actions.startNew();
    }
    this.actions.returned(content);
  }

  /** Goes back to before the message, if the user agrees. */
  private async goBack({ id, content }: UserMessageItem, conversationId: string): Promise<void> {
    if (await call("host/goBack", { conversationId, itemId: id })) this.actions.returned(content);
  }
}
