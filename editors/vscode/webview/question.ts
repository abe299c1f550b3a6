/** A question of the agent: its choices, or a field for another answer. Prompt and choices are the model's text. */

import type { HalfAnswer } from "../src/messages";
import type { InputRequest } from "../src/protocol";
import { INERT_MS } from "./approval";
import { h, icon } from "./dom";
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
  const buttons = choices.map((choice) =>
    h("button.secondary.choice", { disabled: true, onclick: () => respond("accept", choice) }, choice),
  );
  // A click meant for something else must not answer a question that has just appeared.
  setTimeout(() => {
    for (const button of buttons) button.disabled = false;
  }, INERT_MS);
  const submit = (event?: Event) => {
    event?.preventDefault();
    if (field.value.trim() !== "") respond("accept", field.value.trim());
  };
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  return h(
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
}
