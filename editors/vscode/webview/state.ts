/** Shown instead of a conversation, or below it: a welcome, an error with its remedies, a retry. */

import type { DaemonState, HostRequests } from "../src/messages";
import type { ErrorInfo, Part } from "../src/protocol";
import { noticeCard, part } from "./cards";
import { dots, h } from "./dom";
import { run } from "./host";
import { markdown } from "./markdown";
import type { Retry, Store } from "./store";

type Kind = "primary" | "secondary";

export interface Shown {
  daemon: DaemonState;
  failure: ErrorInfo | undefined;
  store: Store | undefined;
  /** The message that is on its way to the daemon. */
  sending: readonly Part[] | undefined;
  hasModel: boolean;
  isList: boolean;
}

export class StateBox {
  readonly element = h("div.state-box");
  private shownKey = "";

  constructor(
    private readonly actions: { redraw: () => void; resume: () => void; useDemo: () => void; dismiss: () => void },
  ) {}

  draw(shown: Shown): void {
    const { daemon, failure, store, sending, hasModel, isList } = shown;
    const retry = store?.retry;
    const wait = retry && [retry.at, secondsUntil(retry.at)];
    const key = JSON.stringify([
      isList,
      daemon,
      failure,
      store?.error,
      wait,
      store?.info.id,
      sending !== undefined,
      hasModel,
    ]);
    if (retry) setTimeout(this.actions.redraw, 250);
    if (key === this.shownKey) return;
    this.shownKey = key;
    this.element.replaceChildren(...this.cards(shown));
  }

  private cards({ daemon, failure, store, sending, hasModel, isList }: Shown): HTMLElement[] {
    const { resume, useDemo, dismiss } = this.actions;
    if (daemon.kind === "failed") return [daemonProblem(daemon)];
    const failed = failure
      ? [problem(failure, [...remedies(failure, store ? undefined : useDemo), button("Dismiss", dismiss)])]
      : [];
    if (isList) return failed;
    const cards: HTMLElement[] = [];
    if (sending) cards.push(...sendingView(sending));
    else if (!store && daemon.kind === "running" && !failure) cards.push(hasModel ? welcome() : withoutModel(useDemo));
    if (store?.retry) cards.push(retryNotice(store.retry));
    if (store?.error) cards.push(problem(store.error, [...remedies(store.error), button("Try again", resume)]));
    return [...cards, ...failed];
  }
}

function daemonProblem({ message, details, canInstall }: Extract<DaemonState, { kind: "failed" }>): HTMLElement {
  return problem({ message, hint: details }, [
    ...(canInstall ? [host("Install", "oh.install", "primary")] : []),
    host("Try again", "oh.restart"),
    host("Settings", "oh.settings"),
    host("Log", "oh.log"),
  ]);
}

function welcome(): HTMLElement {
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

/** Shown while a message is being sent. */
function sendingView(content: readonly Part[]): HTMLElement[] {
  return [
    h("article.user", { "aria-label": "You" }, h("div.bubble", {}, ...content.map((each) => part(each)))),
    dots(),
  ];
}

function withoutModel(onDemo: () => void): HTMLElement {
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
function remedies({ kind }: Pick<ErrorInfo, "kind">, onDemo?: () => void): HTMLElement[] {
  if (kind !== "authRequired") return [];
  return [host("Set an API key", "oh.setKey", "primary"), ...(onDemo ? [button("Use the demo", onDemo)] : [])];
}

function problem(
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

function button(label: string, onclick: () => void, kind: Kind = "secondary"): HTMLElement {
  return h(`button.${kind}`, { onclick }, label);
}

function host(
  label: string,
  command: HostRequests["host/command"][0]["command"],
  kind: Kind = "secondary",
): HTMLElement {
  return button(label, () => run("host/command", { command }), kind);
}

function retryNotice({ attempt, maxAttempts, at, error, model }: Retry): HTMLElement {
  const title =
    model !== undefined
      ? `Asking ${model} instead.`
      : `Trying again in ${secondsUntil(at)} s (${attempt} of ${maxAttempts}).`;
  return noticeCard({ severity: "warning", title, description: error.message });
}

function secondsUntil(at: number): number {
  return Math.max(0, Math.ceil((at - Date.now()) / 1000));
}
