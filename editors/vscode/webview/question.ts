/** A question of the agent: its choices, which number keys take too, or a field for another answer.
 * Prompt and choices are the model's text. */

import type { HalfAnswer } from "../src/messages";
import type { InputRequest } from "oh-daemon-client/protocol";
import { activateOnceSeen, h, icon } from "./dom";
import { run } from "./host";
import { markdown } from "./markdown";

export function questionCard(input: InputRequest, half: HalfAnswer, keep: (change: HalfAnswer) => void): HTMLElement {
  const { id, prompt, choices = [] } = input;
  const respond = (action: "accept" | "decline", content?: string) =>
    run("input/respond", { inputId: id, action, ...(content !== undefined && { content }) });
  const field = h("textarea.answer", {
    rows: 1,
    "aria-label": "Your answer",
    placeholder: choices.length > 0 ? "Another answer" : "Your answer",
    oninput: () => keep({ answer: field.value }),
  });
  field.value = half.answer ?? "";
  const buttons = choices.map((choice, i) =>
    h(
      "button.secondary.choice",
      { disabled: true, "aria-keyshortcuts": keyOf(i), onclick: () => respond("accept", choice) },
      keyOf(i) !== undefined && h("kbd", { "aria-hidden": "true" }, keyOf(i)),
      h("span", {}, choice),
    ),
  );
  activateOnceSeen(() => {
    for (const button of buttons) button.disabled = false;
  });
  const submit = (event?: Event) => {
    event?.preventDefault();
    if (field.value.trim() !== "") respond("accept", field.value.trim());
  };
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const card = h(
    "section.approval.question",
    { role: "group", "aria-label": "Question of the agent", "data-id": id },
    h("div.approval-head", {}, icon("bubble"), h("h2", {}, "The agent asks")),
    markdown(prompt),
    choices.length > 0 && h("div.choices", {}, ...buttons),
    h(
      "form.answer-form",
      { onsubmit: submit },
      field,
      h("button.primary", { type: "submit" }, "Answer"),
      h(
        "button.secondary",
        { type: "button", title: "The agent goes on without an answer", onclick: () => respond("decline") },
        "Skip",
      ),
    ),
  );
  const onKey = (event: KeyboardEvent) => {
    if (!card.isConnected) document.removeEventListener("keydown", onKey);
    else if (event.target !== field && isFor(card, event)) press(event, buttons);
  };
  document.addEventListener("keydown", onKey);
  return card;
}

/** The key that takes this choice, if there is one. */
function keyOf(i: number): string | undefined {
  return i < 9 ? String(i + 1) : undefined;
}

/** Whether the key is for the question: it has the focus, or the input has it and nothing is typed there. */
function isFor(card: HTMLElement, { target, ctrlKey, metaKey, altKey, isComposing }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || isComposing || !(target instanceof HTMLElement)) return false;
  const isEmptyInput = target instanceof HTMLTextAreaElement && target.matches(".input") && target.value === "";
  return isEmptyInput || target === document.body || card.contains(target);
}

function press(event: KeyboardEvent, buttons: readonly HTMLButtonElement[]): void {
  const button = buttons.find((_, i) => keyOf(i) === event.key);
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
}
