/** The actions at a message of the user: fork the conversation before it, or go back to before it. */

import type { Part, RollbackResult, UserMessageItem } from "../src/protocol";
import { formatCount } from "../src/words";
import { fileName } from "./diff";
import { h, type IconName, icon } from "./dom";
import { call, report } from "./host";

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
    const buttons: HTMLElement = h(
      "div.message-actions",
      {},
      button("undo", "Go back to before this message", () => this.preview(item, conversationId, buttons)),
      button("fork", "Fork: say it differently in a copy of the conversation up to here", () =>
        this.fork(item, conversationId),
      ),
    );
    return buttons;
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

  /** Shows under the message what going back would do, before it is done. */
  private async preview(item: UserMessageItem, conversationId: string, buttons: HTMLElement): Promise<void> {
    const found = await call("conversation/rollback", {
      conversationId,
      toItemId: item.id,
      files: "restore",
      dryRun: true,
    });
    const message = buttons.parentElement;
    message?.parentElement?.querySelector(".rollback")?.remove();
    const card = this.card(item, conversationId, found);
    message?.after(card);
    card.querySelector<HTMLElement>(".secondary")?.focus();
    card.scrollIntoView({ block: "nearest" });
  }

  private card(item: UserMessageItem, conversationId: string, { restored, conflicts }: RollbackResult): HTMLElement {
    const isWanted = h("input", { type: "checkbox", checked: true });
    const goBack = async () => {
      const files = restored.length > 0 && isWanted.checked ? "restore" : "keep";
      const done = await call("conversation/rollback", { conversationId, toItemId: item.id, files });
      card.remove();
      this.actions.returned(item.content);
      if (done.conflicts.length > 0 && files === "restore")
        report(new Error(`Left as it is: ${done.conflicts.map(reasonOf).join("; ")}`));
    };
    const list = (entries: readonly { uri: string; text: string }[]) =>
      h("ul", {}, ...entries.map(({ uri, text }) => h("li", { title: uri }, text)));
    const card: HTMLElement = h(
      "section.rollback",
      { role: "group", "aria-label": "Go back to before this message?" },
      h("p", {}, "This message and all after it leave the conversation; its log keeps them."),
      restored.length > 0 && h("label", {}, isWanted, `Restore ${formatCount(restored.length, "file")}`),
      restored.length > 0 && list(restored.map((uri) => ({ uri, text: fileName(uri) }))),
      conflicts.length > 0 && h("p", {}, "These files stay as they are:"),
      conflicts.length > 0 && list(conflicts.map((each) => ({ uri: each.uri, text: reasonOf(each) }))),
      h(
        "div.actions",
        {},
        h("button.primary", { onclick: () => goBack().catch(report) }, "Go back"),
        h("button.secondary", { onclick: () => card.remove() }, "Cancel"),
      ),
    );
    return card;
  }
}

function reasonOf({ uri, reason }: { uri: string; reason: string }): string {
  return `${fileName(uri)}: ${reason}`;
}
