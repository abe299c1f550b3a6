/** A side question: answered from the conversation so far, without becoming part of it. */

import { h, icon } from "./dom";
import { call, report } from "./host";
import { markdown } from "./markdown";

export class Aside {
  readonly element = h("div.aside-box");

  /** Asks a question; it replaces an earlier one. */
  ask(conversationId: string, question: string): void {
    const answer = h("div.aside-answer", { role: "status" }, h("p.divider", {}, "Thinking…"));
    const close = h(
      "button.quiet",
      { title: "Close", "aria-label": "Close the side question", onclick: () => this.clear() },
      icon("cross"),
    );
    const card = h(
      "section.aside",
      { "aria-label": "Side question" },
      h(
        "div.aside-head",
        {},
        icon("bubble"),
        h("strong", {}, "Side question"),
        h("span.hint", {}, "not part of the conversation"),
        close,
      ),
      h("p.aside-question", {}, question),
      answer,
    );
    this.element.replaceChildren(card);
    card.scrollIntoView({ block: "nearest" });
    call("conversation/ask", { conversationId, question }).then(
      ({ text }) => answer.replaceChildren(markdown(text)),
      (error: unknown) => {
        if (card.isConnected) this.clear();
        report(error);
      },
    );
  }

  /** Removes the question, for instance when another conversation is shown. */
  clear(): void {
    this.element.replaceChildren();
  }
}
