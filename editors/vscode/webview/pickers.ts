/** The pickers of model, mode and approval policy, for the conversation or for the next one. */

import { CHOICES, type Option, type Requests } from "oh-daemon-client/protocol";
import { h } from "./dom";
import { call, report, run } from "./host";
import type { Memory } from "./memory";
import { ModelPicker } from "./models";
import type { Store } from "oh-daemon-client/store";

const ORDER = ["model", "effort", "mode", "approval"];
const MODE: Option = {
  id: "mode",
  name: "Mode",
  category: "mode",
  type: "select",
  value: "ask",
  choices: CHOICES.mode,
};
const APPROVAL: Option = {
  id: "approval",
  name: "Approval",
  category: "approval",
  type: "select",
  value: "askRisky",
  choices: CHOICES.approval,
};

export class Pickers {
  readonly element = h("div.pickers");
  /** Shown in the mode that asks for nothing. */
  readonly warning = h(
    "div.strip.full",
    { role: "status", hidden: true },
    h("span", {}, "Runs without asking."),
    h("button.quiet", { onclick: () => this.pick("mode", "ask") }, "Ask again"),
  );
  private readonly model = new ModelPicker({
    pick: (value) => this.pick("model", value),
    addServer: () => this.addServer(),
  });
  private store: Store | undefined;
  /** What there is to choose for the next conversation, once it is known. */
  private offered: Offered | undefined;
  private shownKey = "";

  constructor(
    private readonly memory: Memory,
    private readonly onChanged: () => void,
  ) {}

  /** The options of the next conversation, once they are known. */
  private get draft(): readonly Option[] | undefined {
    return this.offered && draftOptions(this.offered, this.memory.now.options ?? {});
  }

  /** Whether the next conversation would have a model, as far as is known. */
  get hasModel(): boolean {
    return this.draft?.some(({ id }) => id === "model") ?? true;
  }

  /** The values for a conversation to start with. */
  get chosen(): Record<string, string> {
    return Object.fromEntries((this.draft ?? []).map(({ id, value }) => [id, value]));
  }

  /** Reads the options of the next conversation. */
  async load(): Promise<void> {
    const [listed, { value }] = await Promise.all([call("model/list", {}), call("config/read", {})]);
    this.offered = { ...listed, settings: value };
    this.onChanged();
  }

  /** Lets the user add a server, which may be given, and takes its model. */
  addServer(address?: string): void {
    call("host/addServer", address === undefined ? {} : { address })
      .then(async ({ model }) => {
        if (model === undefined) return;
        this.pick("model", model);
        await this.load();
      })
      .catch(report);
  }

  /** In a restricted window the agent can only read, so there is no mode and no approval to choose. */
  draw(store: Store | undefined, isRestricted: boolean): void {
    this.store = store;
    const all = store?.options ?? this.draft ?? [];
    const isFull = all.some(({ id, value }) => id === "mode" && value === "full");
    this.warning.hidden = !isFull || isRestricted || (store?.isReadOnly ?? false);
    // In this mode nothing is asked; the approval picker would say the opposite and have no effect.
    const useful = all.filter(
      ({ id }) => !(isRestricted ? id === "mode" || id === "approval" : isFull && id === "approval"),
    );
    // Sorted, so that the pickers keep their places when a conversation starts.
    const options = useful.sort((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));
    const key = JSON.stringify(options);
    if (this.shownKey === key) return;
    this.shownKey = key;
    this.element.replaceChildren(...options.map((option) => this.pickerOf(option)));
  }

  private pickerOf(option: Option): HTMLElement {
    if (option.category !== "model") return picker(option, (value) => this.pick(option.id, value));
    this.model.draw(option);
    return this.model.element;
  }

  private pick(optionId: string, value: string): void {
    if (this.store) {
      run("conversation/setOption", { conversationId: this.store.info.id, optionId, value });
      return;
    }
    this.memory.keep({ options: { ...this.memory.now.options, [optionId]: value } });
    this.onChanged();
  }
}

type Offered = Requests["model/list"][1] & { settings: Record<string, unknown> };

/** Returns the options for a conversation that has not started. If there is no model, its picker is left out. */
function draftOptions({ models, default: standard, settings }: Offered, picked: Record<string, string>): Option[] {
  const chosen = (option: Option): Option => {
    const setting = settings[option.id];
    return { ...option, value: picked[option.id] ?? (typeof setting === "string" ? setting : option.value) };
  };
  const pickers = [chosen(MODE), chosen(APPROVAL)];
  const value = picked.model ?? standard;
  if (value === undefined) return pickers;
  const choices = models.filter((each) => each.available).map((each) => ({ value: each.id, label: each.label }));
  const efforts = models.find(({ id }) => id === value)?.efforts ?? [];
  return [
    { id: "model", name: "Model", category: "model", type: "select", value, choices },
    ...(efforts.length > 0 ? [effortOption(efforts, picked.effort)] : []),
    ...pickers,
  ];
}

/** As the daemon offers it in a conversation: what a model does not know counts as the default. */
function effortOption(efforts: readonly string[], picked = ""): Option {
  const choices = ["default", ...efforts].map((each) => ({
    value: each,
    label: `${each[0]?.toUpperCase()}${each.slice(1)} effort`,
  }));
  const value = efforts.includes(picked) ? picked : "default";
  return { id: "effort", name: "Effort", category: "effort", type: "select", value, choices };
}

function picker(option: Option, onPick: (value: string) => void): HTMLElement {
  const known = option.choices.some((choice) => choice.value === option.value);
  const choices = known ? option.choices : [{ value: option.value, label: option.value }, ...option.choices];
  const select = h(
    "select.picker",
    {
      "aria-label": option.name,
      title: `${option.name}: ${option.value}`,
      "data-option": option.id,
      "data-value": option.value,
    },
    ...choices.map(({ value, label }) => h("option", { value, selected: value === option.value }, label)),
  );
  select.addEventListener("change", () => onPick(select.value));
  return select;
}
