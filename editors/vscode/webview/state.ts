/** Shown instead of a conversation, or below it: a welcome, an error with its remedies, a retry. */

import type { DaemonState, HostRequests, LocalServer } from "../src/messages";
import type { ErrorInfo, Part } from "oh-daemon-client/protocol";
import { formatCount } from "../src/words";
import { noticeCard, part } from "./cards";
import { dots, h } from "./dom";
import { call, hasEditor, run } from "./host";
import { markdown } from "./markdown";
import type { Retry, Store } from "oh-daemon-client/store";
import type { Welcome } from "./welcome";

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
  private readonly firstModel: FirstModel;
  private shownKey = "";

  constructor(
    private readonly welcome: Welcome,
    private readonly actions: {
      redraw: () => void;
      resume: () => void;
      useDemo: () => void;
      addServer: (address?: string) => void;
      dismiss: () => void;
    },
  ) {
    this.firstModel = new FirstModel(actions.useDemo, actions.addServer);
  }

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
    if (daemon.kind === "missing") return [withoutDaemon()];
    if (daemon.kind === "installing") return [installing(daemon.step)];
    const failed = failure
      ? [problem(failure, [...remedies(failure, store ? undefined : useDemo), button("Dismiss", dismiss)])]
      : [];
    if (isList) return failed;
    const cards: HTMLElement[] = [];
    if (sending) cards.push(...sendingView(sending));
    else if (!store && daemon.kind === "running" && !failure)
      cards.push(hasModel ? loaded(this.welcome) : hasEditor ? loaded(this.firstModel) : modelElsewhere());
    if (store?.retry) cards.push(retryNotice(store.retry));
    if (store?.error) cards.push(problem(store.error, [...remedies(store.error), button("Try again", resume)]));
    return [...cards, ...failed];
  }
}

function loaded(card: Welcome | FirstModel): HTMLElement {
  card.load();
  return card.element;
}

function daemonProblem({ message, details }: Extract<DaemonState, { kind: "failed" }>): HTMLElement {
  return problem({ message, hint: details }, [
    host("Try again", "oh.restart"),
    ...(hasEditor ? [host("Settings", "oh.settings"), host("Log", "oh.log")] : []),
  ]);
}

/** Shown while a message is being sent. */
function sendingView(content: readonly Part[]): HTMLElement[] {
  return [
    h("article.user", { "aria-label": "You" }, h("div.bubble", {}, ...content.map((each) => part(each)))),
    dots(),
  ];
}

/** Before the daemon is there. */
function withoutDaemon(): HTMLElement {
  return h(
    "div.welcome",
    {},
    h("h2", {}, "One more step"),
    h(
      "p",
      {},
      "The agent runs in a program of its own, the oh daemon, which comes with this extension and is not installed yet. It goes into the editor's own storage and takes a few minutes.",
    ),
    h("div.actions", {}, host("Install", "oh.install", "primary"), host("Look for it again", "oh.restart")),
    h("p", {}, "If you have it elsewhere, name its program in the setting ", h("code", {}, "oh.daemon.command"), "."),
  );
}

function installing(step: string): HTMLElement {
  return h(
    "div.welcome",
    { role: "status" },
    h("h2", {}, "Installing the agent"),
    h("p", {}, "This takes a few minutes. You can go on working meanwhile."),
    dots(),
    h("p.step", {}, step),
  );
}

/** Before there is a model, where none can be added. */
function modelElsewhere(): HTMLElement {
  const where = " where the daemon runs, or set a key in an editor.";
  const how = h("p", {}, "Run ", h("code", {}, "oh-daemon login"), where);
  return h("div.welcome", {}, h("h2", {}, "There is no model yet"), how);
}

const KEY_WORDS =
  "the key of a provider, such as Anthropic, OpenAI, Google or OpenRouter; it is kept in the editor's secret storage.";

/** Before there is a model: what runs on this machine already, a key, another server, or the demo. */
class FirstModel {
  private readonly servers = h("div.actions");
  private readonly about = h("p");
  private readonly key = host("Set an API key", "oh.setKey", "primary");
  readonly element: HTMLElement;

  constructor(
    onDemo: () => void,
    private readonly onServer: (address?: string) => void,
  ) {
    this.element = h(
      "div.welcome",
      {},
      h("h2", {}, "First, a model"),
      this.servers,
      this.about,
      h(
        "div.actions",
        {},
        this.key,
        button("Use my own server", () => onServer()),
        button("Use the demo", onDemo),
      ),
      h("p", {}, "The demo is a script that needs no key."),
    );
    this.drawServers([]);
  }

  /** Call when it is shown; without an answer, there are just no servers to offer. */
  load(): void {
    call("host/localServers", {})
      .then(({ servers }) => this.drawServers(servers))
      .catch(() => undefined);
  }

  private drawServers(servers: readonly LocalServer[]): void {
    const hasAny = servers.length > 0;
    this.servers.hidden = !hasAny;
    this.about.textContent = hasAny
      ? `Or give ${KEY_WORDS}`
      : `Give ${KEY_WORDS} Or use a server of your own, such as Ollama.`;
    this.key.className = hasAny ? "secondary" : "primary";
    this.servers.replaceChildren(
      ...servers.map(({ name, address, nModels }, n) =>
        h(
          n === 0 ? "button.primary" : "button.secondary",
          { title: `${address} has ${formatCount(nModels, "model")}`, onclick: () => this.onServer(address) },
          `Use ${name} on this machine`,
        ),
      ),
    );
  }
}

/** Before the first conversation the demo is a remedy too. */
function remedies({ kind, hint }: Pick<ErrorInfo, "kind" | "hint">, onDemo?: () => void): HTMLElement[] {
  if (!hasEditor) return [];
  if (kind !== "authRequired") return hint?.includes("the setting `") ? [host("Settings", "oh.settings")] : [];
  return [host("Set an API key", "oh.setKey", "primary"), ...(onDemo ? [button("Use the demo", onDemo)] : [])];
}

function problem(
  { kind, message, hint }: { kind?: string; message: string; hint?: string },
  actions: HTMLElement[],
): HTMLElement {
  // The hint says how to set a key elsewhere; here there is a button for it.
  const isSaid = (hasEditor && kind === "authRequired") || hint === undefined;
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
