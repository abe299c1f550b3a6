/** The conversation's usage so far, and how full the model's context is; a click shows details. */

import type { ConversationInfo, Usage } from "oh-daemon-client/protocol";
import { compact, formatCost } from "../src/words";
import { h } from "./dom";
import { call, report } from "./host";

/** From this share on, a summary is likely before one of the next steps. */
const NEARLY_FULL = 0.75;

export class Meter {
  readonly element: HTMLElement;
  private readonly words = h("span.spent");
  private readonly fill = h("span.fill");
  private readonly bar = h("span.meter", {}, this.fill);
  private readonly button = h(
    "button.quiet.usage",
    {
      "aria-expanded": "false",
      "aria-controls": "usage",
      title: "What this conversation took",
      onclick: () => this.show(this.details.hidden !== false),
    },
    this.bar,
    this.words,
  );
  private readonly rows = h("dl");
  private readonly condense: HTMLButtonElement;
  private readonly details: HTMLElement;
  private info: ConversationInfo | undefined;
  /** Further rows from the logs, requested each time the details are opened. */
  private more: string[][] = [];

  /** `onCondense` replaces earlier steps with a summary. */
  constructor(onCondense: () => void) {
    this.condense = h(
      "button.secondary",
      { title: "The model goes on with a summary of what came before", onclick: () => this.close(onCondense) },
      "Summarize now",
    );
    this.details = h(
      "div.usage-details",
      { id: "usage", role: "group", "aria-label": "What this conversation took", hidden: true },
      this.rows,
      this.condense,
    );
    this.element = h("div.usage-box", {}, this.details, this.button);
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget instanceof Node && !this.element.contains(relatedTarget)) this.show(false);
    });
  }

  draw(info: ConversationInfo | undefined, canCondense: boolean): void {
    this.info = info;
    const { usage, context } = info ?? {};
    this.words.textContent = usage ? spent(usage) : "";
    // The demo model uses no tokens.
    this.button.hidden = !usage || usage.inputTokens + usage.outputTokens === 0;
    this.condense.hidden = !canCondense;
    this.bar.hidden = !context?.size;
    if (!this.details.hidden) this.drawDetails();
    if (!context?.size) return;
    const part = Math.min(1, context.used / context.size);
    this.bar.dataset.level = part > NEARLY_FULL ? "high" : "low";
    this.fill.style.width = `${Math.round(100 * part)}%`;
  }

  private show(isShown: boolean): void {
    this.details.hidden = !isShown;
    this.button.setAttribute("aria-expanded", String(isShown));
    if (!isShown) return;
    this.more = [];
    this.drawDetails();
    this.readMore().catch(report);
  }

  private async readMore(): Promise<void> {
    const conversationId = this.info?.id;
    if (conversationId === undefined) return;
    const since = new Date().toISOString().slice(0, 10);
    const [own, today] = await Promise.all([call("usage/read", { conversationId }), call("usage/read", { since })]);
    const models = own.byModel.length > 1 ? own.byModel : [];
    this.more = [
      ...models.map(({ model, usage }) => [model.split("/").at(-1) ?? model, spent(usage)]),
      ["All today", spent(today.usage)],
    ];
    if (this.info?.id === conversationId) this.drawDetails();
  }

  private close(then?: () => void): void {
    this.show(false);
    this.button.focus();
    then?.();
  }

  private drawDetails(): void {
    const { usage, context } = this.info ?? {};
    if (!usage) return;
    const rows = [
      ...contextRow(context),
      ...usageRows(usage),
      ...(usage.cost ? [["Cost", formatCost(usage)]] : []),
      ...this.more,
    ];
    this.rows.replaceChildren(...rows.flatMap(([name = "", value = ""]) => [h("dt", {}, name), h("dd", {}, value)]));
  }
}

function spent(usage: Usage): string {
  return [`${compact(usage.inputTokens + usage.outputTokens)} tokens`, formatCost(usage)].filter(Boolean).join(" · ");
}

function contextRow(context: ConversationInfo["context"] | undefined): string[][] {
  if (!context?.size) return [];
  const percent = Math.round(Math.min(100, (100 * context.used) / context.size));
  return [["Context", `${percent} % of ${compact(context.size)} tokens`]];
}

function usageRows({ inputTokens, outputTokens, cacheReadTokens, requests }: Usage): string[][] {
  const hits = inputTokens > 0 ? Math.round((100 * cacheReadTokens) / inputTokens) : 0;
  return [
    ["Read", `${compact(inputTokens)} tokens, ${hits} % from the cache`],
    ["Written", `${compact(outputTokens)} tokens`],
    ["Requests", String(requests)],
  ];
}
