/** The choice of a model: a button that names it, and above the input a list that is searched by typing. */

import type { Choice, ModelInfo, Option } from "oh-daemon-client/protocol";
import { h, icon } from "./dom";
import { call, hasEditor, report, run } from "./host";

interface Row {
  id: string;
  label: string;
  detail: string;
  isChosen?: boolean;
  isMissing?: boolean;
  take: () => void;
}

export class ModelPicker {
  readonly element: HTMLElement;
  private readonly search = h("input.search", {
    type: "text",
    role: "combobox",
    placeholder: "Search models",
    "aria-label": "Search models",
    "aria-controls": "models",
    "aria-expanded": "true",
    "aria-autocomplete": "list",
  });
  private readonly rows = h("ul", { id: "models", role: "listbox", "aria-label": "Models" });
  private readonly box = h("div.models", { hidden: true }, this.search, this.rows);
  private readonly button = h("button.picker", {
    "data-option": "model",
    "aria-haspopup": "listbox",
    "aria-expanded": "false",
    onclick: () => this.show(this.box.hidden !== false),
  });
  private value = "";
  private models: readonly ModelInfo[] = [];
  private marked = 0;
  /** The row that was marked by the arrow keys, which stays so when the models arrive. */
  private markedId = "";

  constructor(private readonly actions: { pick: (value: string) => void; addServer: () => void }) {
    this.element = h("div.models-box", {}, this.box, this.button);
    this.search.addEventListener("input", () => {
      this.markedId = "";
      this.list();
    });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget instanceof Node && !this.element.contains(relatedTarget)) this.show(false);
    });
    window.addEventListener("blur", () => this.show(false));
  }

  draw({ value, choices }: Option): void {
    this.value = value;
    const known = choices.find((each) => each.value === value) ?? { value, label: value };
    this.button.replaceChildren(h("span", {}, shortLabel(known, choices)), icon("chevron"));
    this.button.dataset.value = value;
    this.button.title = `Model: ${value}`;
    this.button.setAttribute("aria-label", `Model: ${value}`);
  }

  private show(isShown: boolean): void {
    if (this.box.hidden === !isShown) return;
    this.box.hidden = !isShown;
    this.button.setAttribute("aria-expanded", String(isShown));
    this.rows.replaceChildren();
    if (!isShown) return;
    this.search.value = "";
    this.markedId = "";
    this.search.focus();
    this.list();
    // Keys and servers come and go, so the models are read each time.
    call("model/list", {})
      .then(({ models }) => {
        this.models = models;
        this.list();
      })
      .catch(report);
  }

  private close(): void {
    this.show(false);
    this.button.focus();
  }

  private list(): void {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const isMeant = ({ id, label }: ModelInfo) => words.every((word) => `${id} ${label}`.toLowerCase().includes(word));
    const choices = this.models.map(({ id, label }) => ({ value: id, label }));
    const known = this.models.filter(isMeant);
    const missing = known.filter((each) => !each.available && hasEditor);
    const rows = [...known.filter((each) => each.available), ...missing].map((each) => this.rowOf(each, choices));
    if (!hasEditor) return this.drawRows(rows);
    const { addServer } = this.actions;
    this.drawRows([
      ...rows,
      { id: "+key", label: "Add a key…", detail: "of a provider", take: askForKey },
      { id: "+server", label: "Add a server…", detail: "Ollama, LM Studio, any URL", take: addServer },
    ]);
  }

  private rowOf({ id, label, kind, available }: ModelInfo, choices: readonly Choice[]): Row {
    const provider = kind === "model" && id.includes("/") ? (id.split("/")[0] ?? "") : kind === "model" ? "" : kind;
    return {
      id,
      label: shortLabel({ value: id, label }, choices),
      detail: available ? provider : `${provider} · needs a key`,
      isChosen: id === this.value,
      isMissing: !available,
      take: () => (available ? this.actions.pick(id) : askForKey()),
    };
  }

  private drawRows(rows: readonly Row[]): void {
    this.rows.replaceChildren(
      ...rows.map(({ id, label, detail, isChosen, isMissing, take }, i) => {
        const onmousedown = (event: MouseEvent) => {
          event.preventDefault();
          if (event.button !== 0) return;
          this.close();
          take();
        };
        return h(
          "li",
          { role: "option", id: `model-${i}`, "data-id": id, "data-missing": isMissing, onmousedown },
          isChosen ? icon("check") : h("span.icon"),
          h("span.label", {}, label),
          h("span.detail", {}, detail),
        );
      }),
    );
    const marked = rows.findIndex(({ id }) => id === this.markedId);
    if (marked >= 0) this.mark(marked);
    else this.mark(this.search.value === "" ? rows.findIndex(({ isChosen }) => isChosen) : 0);
  }

  private mark(at: number): void {
    const rows = [...this.rows.children];
    this.marked = Math.max(0, Math.min(at, rows.length - 1));
    rows.forEach((row, i) => {
      row.setAttribute("aria-selected", String(i === this.marked));
      if (i === this.marked) row.scrollIntoView({ block: "nearest" });
    });
    this.search.setAttribute("aria-activedescendant", `model-${this.marked}`);
  }

  private onKey(event: KeyboardEvent): void {
    if (this.box.hidden || event.isComposing) return;
    if (event.key === "Escape") this.close();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      this.mark(this.marked + (event.key === "ArrowDown" ? 1 : -1));
      this.markedId = this.rows.querySelector<HTMLElement>(`#model-${this.marked}`)?.dataset.id ?? "";
    } else if (event.key === "Enter")
      this.rows.children[this.marked]?.dispatchEvent(new MouseEvent("mousedown", { cancelable: true }));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function askForKey(): void {
  run("host/command", { command: "oh.setKey" });
}

/** Names of models are long; the provider's prefix is needed only if two providers offer the same model. */
function shortLabel({ label }: Choice, all: readonly Choice[]): string {
  const shorter = (each: string) => each.split("/").at(-1) ?? each;
  const isAlone = all.filter((each) => shorter(each.label) === shorter(label)).length <= 1;
  return isAlone ? shorter(label) : label;
}
