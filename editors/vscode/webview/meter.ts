/** What the conversation took so far, and how full the model's context is. */

import type { ConversationInfo } from "../src/protocol";
import { compact } from "./cards";
import { h } from "./dom";
import { formatCost } from "./list";

/** From here on the next steps are likely to be summarized first. */
const NEARLY_FULL = 0.75;

export class Meter {
  readonly element = h("div.usage");
  private readonly words = h("span.spent");
  private readonly fill = h("span.fill");
  private readonly bar = h("span.meter", { role: "meter", "aria-label": "Context used", "aria-valuemin": 0, "aria-valuemax": 100 }, this.fill);

  constructor() {
    this.element.append(this.bar, this.words);
  }

  draw(info: ConversationInfo | undefined): void {
    const { usage, context } = info ?? {};
    const tokens = usage && `${compact(usage.inputTokens + usage.outputTokens)} tokens`;
    this.words.textContent = [tokens, info && formatCost(info)].filter(Boolean).join(" · ");
    this.words.title = usage
      ? `${compact(usage.inputTokens)} in (${compact(usage.cacheReadTokens)} from the cache), ${compact(usage.outputTokens)} out, in ${usage.requests} requests`
      : "";
    const size = context?.size;
    this.bar.hidden = !size;
    if (!context || !size) return;
    const part = Math.min(1, context.used / size);
    const percent = Math.round(100 * part);
    this.bar.setAttribute("aria-valuenow", String(percent));
    this.bar.title = `${percent} % of the context: ${compact(context.used)} of ${compact(size)} tokens`;
    this.bar.dataset.level = part > NEARLY_FULL ? "high" : "low";
    this.fill.style.width = `${percent}%`;
  }
}
