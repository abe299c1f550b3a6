/** What can be done from a message of the user: another conversation that begins there, or the way back to before it. */

import type { Part, UserMessageItem } from "../src/protocol";
import { h, type IconName, icon } from "./dom";
import { call } from "./host";

export interface BranchActions {
  open: (conversationId: string) => Promise<void>;
  startNew: () => void;
  /** The message is not in the conversation; its words are the user's again. */
  returned: (content: readonly Part[]) => void;
  fail: (error: unknown) => void;
}

export class Branches {
  constructor(private readonly actions: BranchActions) {}

  /** In sight when the message has the pointer or the keyboard. */
  buttons(item: UserMessageItem, conversationId: string): HTMLElement {
    const button = (name: IconName, label: string, act: () => Promise<void>) =>
      h("button.quiet", { title: label, "aria-label": label, onclick: () => act().catch(this.actions.fail) }, icon(name));
    return h("div.message-actions", {},
      button("fork", "Fork: say it differently in a copy of the conversation up to here", () => this.fork(item, conversationId)));
  }

  /** The other conversation ends before the message, which can be changed and sent there. */
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
}
