/** The list above the input: `@` offers attachments for the message, `/` at its start offers commands. */

import type { Suggestion } from "../src/messages";
import { h, icon, type IconName } from "./dom";

/** The sign and the query behind it, up to the caret. */
const SIGNS = { "@": /(?:^|\s)@(https?:\/\/\S*|[\w./-]*)$/, "/": /^\/([\w-]*)$/ } as const;
export type Sign = keyof typeof SIGNS;

const ICONS: Partial<Record<Suggestion["kind"], IconName>> = {
  file: "file",
  selection: "selection",
  problems: "hand",
  terminal: "prompt",
  symbol: "braces",
  conversation: "bubble",
  folder: "box",
  changes: "pencil",
  page: "share",
  skill: "book",
};

export interface CompletionActions {
  find: (sign: Sign, query: string) => Promise<readonly Suggestion[]>;
  /** The typed sign and query have been removed from the input when this is called. */
  pick: (suggestion: Suggestion) => void;
}

export class Completion {
  readonly element = h("ul.completion", {
    id: "completion",
    role: "listbox",
    "aria-label": "Suggestions",
    hidden: true,
  });
  private found: readonly Suggestion[] = [];
  private chosen = 0;
  private nAsked = 0;

  constructor(
    private readonly input: HTMLTextAreaElement,
    private readonly actions: CompletionActions,
  ) {
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", "completion");
    input.addEventListener("blur", () => this.show([]));
  }

  /** Call after each change of the input. */
  async update(): Promise<void> {
    const mine = ++this.nAsked;
    const typed = this.typed();
    const found = typed ? await this.actions.find(typed.sign, typed.query).catch(() => []) : [];
    if (mine === this.nAsked) this.show(found);
  }

  /** Handles a key. Returns true when the key was for the list. */
  onKey(key: string): boolean {
    if (this.element.hidden) return false;
    if (key === "ArrowDown" || key === "ArrowUp") {
      const step = key === "ArrowDown" ? 1 : -1;
      this.mark((this.chosen + step + this.found.length) % this.found.length);
      return true;
    }
    if (key === "Escape") this.show([]);
    else if (key === "Enter" || key === "Tab") this.pick(this.found[this.chosen]);
    else return false;
    return true;
  }

  private typed(): { sign: Sign; query: string } | undefined {
    const before = this.input.value.slice(0, this.input.selectionStart);
    for (const sign of ["@", "/"] as const) {
      const query = SIGNS[sign].exec(before)?.[1];
      if (query !== undefined) return { sign, query };
    }
    return undefined;
  }

  private show(found: readonly Suggestion[]): void {
    this.found = found;
    this.element.hidden = found.length === 0;
    this.element.replaceChildren(...found.map((each, i) => this.row(each, i)));
    this.mark(0);
  }

  private row(suggestion: Suggestion, i: number): HTMLElement {
    const { kind, label, detail } = suggestion;
    const name = ICONS[kind];
    const pick = (event: MouseEvent) => {
      event.preventDefault();
      this.pick(suggestion);
    };
    return h(
      "li",
      { role: "option", id: `completion-${i}`, title: detail ?? label, onmousedown: pick },
      name !== undefined && icon(name),
      h("span.label", {}, label),
      detail !== undefined && h("span.detail", {}, detail),
    );
  }

  private mark(chosen: number): void {
    this.chosen = chosen;
    [...this.element.children].forEach((row, i) => {
      row.setAttribute("aria-selected", String(i === chosen));
      if (i === chosen) row.scrollIntoView({ block: "nearest" });
    });
    if (this.found.length > 0) this.input.setAttribute("aria-activedescendant", `completion-${chosen}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  private pick(suggestion: Suggestion | undefined): void {
    const typed = this.typed();
    if (!suggestion || !typed) return;
    const end = this.input.selectionStart;
    this.input.setRangeText("", end - typed.query.length - 1, end, "end");
    this.show([]);
    this.actions.pick(suggestion);
  }
}
