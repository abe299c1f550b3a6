/** Shown instead of a conversation, or below it: a welcome, an error with its remedies, a retry. */

import type { HostRequests } from "../src/messages";
import type { ErrorInfo, Part } from "../src/protocol";
import { noticeCard, part } from "./cards";
import { dots, h } from "./dom";
import { run } from "./host";
import { markdown } from "./markdown";
import type { Retry } from "./store";

type Kind = "primary" | "secondary";

export function welcome(): HTMLElement {
  return h(
    "div.welcome",
    {},
    h("h2", {}, "What shall we do?"),
    h(
      "p",
      {},
      "The agent reads the files you have open, with what you have not saved, edits them in place, and asks before anything risky.",
    ),
    h(
      "p",
      {},
      h("kbd", {}, "@"),
      " adds context, ",
      h("kbd", {}, "/"),
      " offers commands, ",
      h("kbd", {}, "Shift"),
      " + ",
      h("kbd", {}, "Enter"),
      " starts a new line.",
    ),
  );
}

/** Shown while the first message of a conversation is being sent. */
export function sendingView(content: readonly Part[]): HTMLElement[] {
  return [
    h("article.user", { "aria-label": "You" }, h("div.bubble", {}, ...content.map((each) => part(each)))),
    dots(),
  ];
}

export function withoutModel(onDemo: () => void): HTMLElement {
  return h(
    "div.welcome",
    {},
    h("h2", {}, "First, a model"),
    h(
      "p",
      {},
      "Give the key of a provider; it is kept in the editor's secret storage. Or look around with the demo, a script that needs no key.",
    ),
    h("div.actions", {}, host("Set an API key", "oh.setKey", "primary"), button("Use the demo", onDemo)),
  );
}

/** Before the first conversation the demo is a remedy too. */
export function remedies({ kind }: Pick<ErrorInfo, "kind">, onDemo?: () => void): HTMLElement[] {
  if (kind !== "authRequired") return [];
  return [host("Set an API key", "oh.setKey", "primary"), ...(onDemo ? [button("Use the demo", onDemo)] : [])];
}

export function problem(
  { kind, message, hint }: { kind?: string; message: string; hint?: string },
  actions: HTMLElement[],
): HTMLElement {
  // The hint says how to set a key elsewhere; here there is a button for it.
  const isSaid = kind === "authRequired" || hint === undefined;
  return h(
    "div.problem",
    { role: "alert" },
    h("p", {}, message),
    !isSaid && h("div.hint", {}, markdown(hint)),
    h("div.actions", {}, ...actions),
  );
}

export function button(label: string, onclick: () => void, kind: Kind = "secondary"): HTMLElement {
  return h(`button.${kind}`, { onclick }, label);
}

export function host(
  label: string,
  command: HostRequests["host/command"][0]["command"],
  kind: Kind = "secondary",
): HTMLElement {
  return button(label, () => run("host/command", { command }), kind);
}

export function retryNotice({ attempt, maxAttempts, at, error, model }: Retry): HTMLElement {
  const title =
    model !== undefined
      ? `Asking ${model} instead.`
      : `Trying again in ${secondsUntil(at)} s (${attempt} of ${maxAttempts}).`;
  return noticeCard({ severity: "warning", title, description: error.message });
}

export function secondsUntil(at: number): number {
  return Math.max(0, Math.ceil((at - Date.now()) / 1000));
}
