/** `@` in the input offers files; choosing one attaches it and takes the `@` text away. */

import type { Part } from "../src/protocol";
import { h } from "./dom";
import { call } from "./host";

interface File { uri: string; name: string }

export class Mentions {
  readonly element = h("ul.mentions", { id: "mentions", role: "listbox", "aria-label": "Files", hidden: true });
  private files: readonly File[] = [];
  private chosen = 0;

  constructor(
    private readonly input: HTMLTextAreaElement,
    private readonly onAttach: (part: Part) => void,
  ) {
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", "mentions");
    this.show([]);
  }

  /** Call after each input; asks for the files that fit what follows the `@`. */
  async update(): Promise<void> {
    const query = this.query();
    if (query === undefined) return this.show([]);
    const { files } = await call("host/files", { query });
    if (query === this.query()) this.show(files.slice(0, 8));
  }

  /** True when the key was for the list. */
  onKey(key: string): boolean {
    if (this.element.hidden) return false;
    if (key === "ArrowDown" || key === "ArrowUp") {
      const step = key === "ArrowDown" ? 1 : -1;
      this.mark((this.chosen + step + this.files.length) % this.files.length);
      return true;
    }
    if (key === "Escape") this.show([]);
    else if (key === "Enter" || key === "Tab") this.pick(this.files[this.chosen]);
    else return false;
    return true;
  }

  private query(): string | undefined {
    const before = this.input.value.slice(0, this.input.selectionStart);
    return /(?:^|\s)@([\w./-]*)$/.exec(before)?.[1];
  }

  private show(files: readonly File[]): void {
    this.files = files;
    this.element.hidden = files.length === 0;
    this.element.replaceChildren(...files.map((file, i) =>
      h("li", { role: "option", id: `mention-${i}`, title: file.name, onmousedown: (event: MouseEvent) => {
        event.preventDefault();
        this.pick(file);
      } }, file.name)));
    this.mark(0);
  }

  private mark(chosen: number): void {
    this.chosen = chosen;
    [...this.element.children].forEach((row, i) => {
      row.setAttribute("aria-selected", String(i === chosen));
      if (i === chosen) row.scrollIntoView({ block: "nearest" });
    });
    if (this.files.length > 0) this.input.setAttribute("aria-activedescendant", `mention-${chosen}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  private pick(file: File | undefined): void {
    const query = this.query();
    if (!file || query === undefined) return;
    const end = this.input.selectionStart;
    this.input.setRangeText("", end - query.length - 1, end, "end");
    this.show([]);
    this.onAttach({ type: "resourceLink", ...file });
  }
}
