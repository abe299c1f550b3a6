/** The pickers of model, mode and approval policy, for the conversation or for the next one. */

import type { PanelMemory } from "../src/messages";
import { CHOICES, type Choice, type Option } from "../src/protocol";
import { h } from "./dom";
import { call } from "./host";

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

/** Returns the options for a conversation that has not started. If there is no model, its picker is left out.
 * Choices that the user makes while they load are respected. */
export async function draftOptions(memoryNow: () => PanelMemory): Promise<Option[]> {
  const [{ models, default: standard }, { value }] = await Promise.all([
    call("model/list", {}),
    call("config/read", {}),
  ]);
  const memory = memoryNow();
  const chosen = (option: Option, setting: unknown): Option => ({
    ...option,
    value: memory.options?.[option.id] ?? (typeof setting === "string" ? setting : option.value),
  });
  const choices = models.filter((each) => each.available).map((each) => ({ value: each.id, label: each.label }));
  const model = memory.options?.model ?? standard;
  const pickers: Option[] = [chosen(MODE, value.mode), chosen(APPROVAL, value.approval)];
  if (model === undefined) return pickers;
  return [{ id: "model", name: "Model", category: "model", type: "select", value: model, choices }, ...pickers];
}

export function picker(option: Option, onPick: (value: string) => void): HTMLElement {
  const known = option.choices.some((choice) => choice.value === option.value);
  const choices = known ? option.choices : [{ value: option.value, label: option.value }, ...option.choices];
  const shown = option.category === "model" ? withoutProvider(choices) : choices;
  const select = h(
    "select.picker",
    { "aria-label": option.name, title: `${option.name}: ${option.value}`, "data-option": option.id },
    ...shown.map(({ value, label }) => h("option", { value, selected: value === option.value }, label)),
  );
  select.addEventListener("change", () => onPick(select.value));
  return select;
}

/** Names of models are long; the provider's prefix is needed only if two providers offer the same model. */
function withoutProvider(choices: readonly Choice[]): Choice[] {
  const shorter = (label: string) => label.split("/").at(-1) ?? label;
  const names = choices.map(({ label }) => shorter(label));
  return choices.map(({ value, label }) => {
    const isAlone = names.filter((name) => name === shorter(label)).length === 1;
    return { value, label: isAlone ? shorter(label) : label };
  });
}
