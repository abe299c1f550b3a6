/** The oldest approval or question that waits for the user, above the input. */

import { type LeftOut, remembered } from "../src/proposal";
import type { Approval, InputRequest } from "../src/protocol";
import { type ApprovalCard, approvalCard } from "./approval";
import { h } from "./dom";
import { tellAsked } from "./host";
import type { Memory } from "./memory";
import { questionCard } from "./question";
import type { Store } from "./store";

export class AskedBox {
  readonly element = h("div.approval-box");
  private shownId = "";
  private card: ApprovalCard | undefined;

  constructor(private readonly memory: Memory) {}

  draw(store: Store | undefined): void {
    // A window that only follows cannot answer.
    const pending = store && !store.isReadOnly ? [...store.pending.values()] : [];
    const first = pending[0];
    // An existing card stays, with what was typed into it.
    if (this.shownId !== (first?.id ?? "")) {
      this.shownId = first?.id ?? "";
      tellAsked(first?.id);
      this.card = undefined;
      this.element.replaceChildren(...(store && first ? [this.cardOf(store, first)] : []));
    }
    const count = this.element.querySelector(".count");
    if (count) count.textContent = pending.length > 1 ? `1 of ${pending.length}` : "";
  }

  /** Presses the button of an answer. */
  press(optionId: string): void {
    this.element.querySelector<HTMLButtonElement>(`[data-option="${optionId}"]`)?.click();
  }

  private cardOf(store: Store, asked: Approval | InputRequest): HTMLElement {
    if ("prompt" in asked) return questionCard(asked);
    const onLeaveOut = (hunks: LeftOut) => this.leaveOut(asked.id, hunks);
    this.card = approvalCard(asked, { folders: store.info.folders, by: store.askedBy(asked), onLeaveOut });
    this.card.leaveOut(this.memory.now.leftOut?.[asked.id] ?? []);
    return this.card.element;
  }

  /** Remembers the choice, as the panel may be hidden or the window reloaded before the request is answered. */
  private leaveOut(approvalId: string, hunks: LeftOut): void {
    this.memory.keep({ leftOut: remembered(this.memory.now.leftOut, approvalId, hunks) });
    this.card?.leaveOut(hunks);
  }
}
