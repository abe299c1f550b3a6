/** The agent's plan, above the input: one line says what is in progress; opened, it lists all entries. */

import type { PlanEntry, PlanItem } from "oh-daemon-client/protocol";
import { h, icon } from "./dom";
import type { Memory } from "./memory";

const MARKS = { pending: "circle", inProgress: "arc", completed: "check" } as const;
const LABELS = { pending: "to do", inProgress: "in progress", completed: "done" } as const;

export class PlanBox {
  readonly element: HTMLDetailsElement;
  private readonly summary = h("summary");
  private readonly list = h("ul.plan");
  private shown: PlanItem | undefined;

  constructor(private readonly memory: Memory) {
    this.element = h("details.plan-box", { "aria-label": "Plan", hidden: true }, this.summary, this.list);
    this.element.addEventListener("toggle", () => {
      if (this.element.open !== (this.memory.now.isPlanOpen ?? false))
        this.memory.keep({ isPlanOpen: this.element.open });
    });
  }

  draw(plan: PlanItem | undefined): void {
    this.element.hidden = plan === undefined;
    if (plan === undefined || plan === this.shown) return;
    this.shown = plan;
    this.element.open = this.memory.now.isPlanOpen ?? false;
    const { entries } = plan;
    const nDone = entries.filter(({ status }) => status === "completed").length;
    const now =
      entries.find(({ status }) => status === "inProgress") ?? entries.find(({ status }) => status === "pending");
    this.summary.replaceChildren(
      mark(now?.status ?? "completed"),
      h("span.title", {}, now?.text ?? "The plan is done"),
      h("span.meta", {}, `${nDone} of ${entries.length}`),
      icon("chevron"),
    );
    const rows = entries.map((entry) =>
      h("li", { "data-status": entry.status }, mark(entry.status), h("span", {}, entry.text)),
    );
    this.list.replaceChildren(...rows);
  }
}

function mark(status: PlanEntry["status"]): HTMLElement {
  return h("span.state", { role: "img", "aria-label": LABELS[status] }, icon(MARKS[status]));
}
