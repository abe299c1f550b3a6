/** The oldest approval or question that waits for the user, above the input. */

import type { HalfAnswer } from "../src/messages";
import type { Approval, InputRequest } from "oh-daemon-client/protocol";
import { allowAll, approvalCard } from "./approval";
import { h } from "./dom";
import { tellAsked } from "./host";
import type { Memory } from "./memory";
import { questionCard } from "./question";
import type { Store } from "oh-daemon-client/store";

export class AskedBox {
  readonly element = h("div.approval-box");
  private shownId = "";
  private listed = "";

  constructor(private readonly memory: Memory) {}

  draw(store: Store | undefined): void {
    // A window that only follows cannot answer.
    const pending = store && !store.isReadOnly ? [...store.pending.values()] : [];
    const first = pending[0];
    // An existing card stays, with the focus.
    if (this.shownId !== (first?.id ?? "")) {
      this.shownId = first?.id ?? "";
      tellAsked(first?.id);
      this.element.replaceChildren(...(store && first ? [this.cardOf(store, first)] : []));
    }
    const listed = pending.map(({ id }) => id).join(" ");
    if (listed === this.listed) return;
    this.listed = listed;
    const count = this.element.querySelector(".count");
    if (count) count.textContent = pending.length > 1 ? `1 of ${pending.length}` : "";
    const others = allowAll(pending, store?.info.folders ?? [], (optionId) => this.press(optionId));
    this.element.querySelector(".all")?.replaceChildren(...others);
  }

  /** Presses the button of an answer, unless it takes no clicks. */
  press(optionId: string): boolean {
    const button = this.element.querySelector<HTMLButtonElement>(`[data-option="${optionId}"]:enabled`);
    button?.click();
    return button !== null;
  }

  /** What is typed is remembered, as the panel may be hidden or the window reloaded before the request is answered. */
  private cardOf(store: Store, asked: Approval | InputRequest): HTMLElement {
    const half = this.memory.now.halfAnswers?.[asked.id] ?? {};
    const keep = (change: HalfAnswer) => this.memory.keepHalfAnswer(asked.id, change);
    if ("prompt" in asked) return questionCard(asked, half, keep);
    return approvalCard(asked, { folders: store.info.folders, by: store.askedBy(asked), half, keep });
  }
}
