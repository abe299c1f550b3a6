/** The side panel's webview: passes its requests to the daemon and notifications back. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Disposable, ExtensionContext, WebviewView, WebviewViewProvider } from "vscode";
import type { Agent } from "./agent";
import { Colors } from "./colors";
import type { EditorContext } from "./context";
import type { Diffs } from "./diff";
import { hostHandlers } from "./host";
import type { FromPanel, HostRequests, PanelMemory, ToPanel } from "./messages";
import type { LeftOut } from "./proposal";
import type { OpenResult, Requests } from "oh-daemon-client/protocol";
import { errorInfo, Relay } from "./relay";
import { formatCount } from "./words";

/** A daemon that hangs must not keep the panel empty. */
const MAX_WAIT_MS = 5000;
const MEMORY = "oh.panel";
const DAEMON_METHODS: ReadonlySet<string> = new Set<keyof Requests>([
  "conversation/start",
  "conversation/open",
  "conversation/list",
  "conversation/update",
  "conversation/delete",
  "conversation/fork",
  "conversation/read",
  "conversation/events",
  "conversation/sendMessage",
  "conversation/pause",
  "conversation/resume",
  "conversation/interrupt",
  "conversation/queue",
  "conversation/setOption",
  "conversation/condense",
  "conversation/ask",
  "usage/read",
  "command/list",
  "context/search",
  "approval/respond",
  "input/respond",
  "attachment/put",
  "output/read",
  "changes/list",
  "changes/diff",
  "changes/accept",
  "changes/revert",
  "port/list",
  "port/open",
  "model/list",
  "config/read",
]);
type Sending = "conversation/start" | "conversation/sendMessage";
const SENDING: ReadonlySet<string> = new Set<Sending>(["conversation/start", "conversation/sendMessage"]);

export class Panel implements WebviewViewProvider, Disposable {
  private view: WebviewView | undefined;
  private isReady = false;
  /** Counts the pages that came and went: the answer to a page that is gone must reach the next one. */
  private nPages = 0;
  /** Settles when the messages on their way to the daemon have arrived, or cannot. */
  private sending: Promise<unknown> = Promise.resolve();
  private readonly relay = new Relay((batch) => this.post({ type: "notifications", batch }));
  private unsent: ToPanel[] = [];
  private readonly listeners: Disposable[];
  private asked: string | undefined;
  private readonly host: ReturnType<typeof hostHandlers>;

  constructor(
    private readonly context: ExtensionContext,
    private readonly agent: Agent,
    diffs: Diffs,
    private readonly editors: EditorContext,
  ) {
    const colors = new Colors(context.asAbsolutePath(join("dist", "tokens.js")));
    this.host = hostHandlers(agent, diffs, editors, colors);
    this.listeners = [
      colors,
      agent.onNotification((notification) => this.relay.take(notification, this.isReady)),
      editors.onLooking((looking) => this.post({ type: "looking", ...(looking && { looking }) })),
      agent.onState((daemon) => {
        if (daemon.kind !== "running") this.relay.forget();
        this.post({ type: "daemon", daemon });
      }),
    ];
  }

  get isVisible(): boolean {
    return this.view?.visible ?? false;
  }

  get conversationId(): string | undefined {
    return this.memory.conversationId;
  }

  /** What the user has chosen for the next conversation. */
  get options(): Record<string, string> {
    return this.memory.options ?? {};
  }

  /** The approval or question that the panel shows. */
  get askedId(): string | undefined {
    return this.isReady ? this.asked : undefined;
  }

  /** The changes that the user has left out of a pending edit. */
  leftOut(approvalId: string): LeftOut {
    return this.memory.halfAnswers?.[approvalId]?.leftOut ?? [];
  }

  showBadge(nWaiting: number, nEnded: number): void {
    if (!this.view) return;
    const waiting = nWaiting === 1 ? "1 action waits for approval" : `${nWaiting} actions wait for approval`;
    const words = [nWaiting > 0 && waiting, nEnded > 0 && `${formatCount(nEnded, "turn")} ended while you were away`];
    const value = nWaiting + nEnded;
    this.view.badge = value > 0 ? { value, tooltip: words.filter(Boolean).join(", ") } : undefined;
  }

  /** Sends it now, or as soon as the panel has opened. Show the panel first: a page that is going away would take it along. */
  tell(message: ToPanel): void {
    if (this.isReady) this.post(message);
    else this.unsent.push(message);
  }

  async resolveWebviewView(view: WebviewView): Promise<void> {
    this.view = view;
    view.webview.options = { enableScripts: true, localResourceRoots: [] };
    view.webview.onDidReceiveMessage((message: FromPanel) => void this.receive(message));
    // A hidden view loses its page; messages for it wait until the next page says that it is ready.
    view.onDidChangeVisibility(() => {
      if (!view.visible) this.onPageGone();
    });
    view.onDidDispose(() => {
      // A view that was moved may end after its successor has begun.
      if (this.view !== view) return;
      this.view = undefined;
      this.onPageGone();
    });
    void this.agent.start();
    view.webview.html = await page(this.context.asAbsolutePath(join("dist", "webview")));
  }

  dispose(): void {
    for (const each of this.listeners) each.dispose();
    this.relay.dispose();
  }

  private get memory(): PanelMemory {
    return this.context.workspaceState.get<PanelMemory>(MEMORY, {});
  }

  private async receive(message: FromPanel): Promise<void> {
    if (message.type === "memory") {
      await this.context.workspaceState.update(MEMORY, message.memory);
      return;
    }
    if (message.type === "asks") {
      this.asked = message.id;
      return;
    }
    if (message.type === "ready") return this.onReady();
    try {
      this.post({ type: "answer", id: message.id, result: await this.answer(message.method, message.params) });
    } catch (error) {
      this.post({ type: "answer", id: message.id, error: errorInfo(error) });
    }
  }

  private onPageGone(): void {
    this.nPages++;
    this.isReady = false;
  }

  /** What an earlier page has sent may still be on its way: the new one waits to know whether it is still a draft. */
  private async onReady(): Promise<void> {
    const page = ++this.nPages;
    await Promise.race([this.sending, delay(MAX_WAIT_MS)]);
    if (page !== this.nPages) return;
    this.isReady = true;
    const { looking } = this.editors;
    this.post({ type: "init", memory: this.memory, daemon: this.agent.state, ...(looking && { looking }) });
    for (const each of this.unsent.splice(0)) this.post(each);
  }

  /** Data enters here: the panel is our own code, and `Calls` types its requests where they are made. */
  private async answer(method: string, params: unknown): Promise<unknown> {
    if (method in this.host) {
      const handler = this.host[method as keyof HostRequests] as (params: unknown) => Promise<unknown>;
      return handler(params);
    }
    if (!DAEMON_METHODS.has(method)) throw new Error(`the panel may not call ${method}`);
    const answered = SENDING.has(method)
      ? this.send(method as Sending, params as Requests[Sending][0])
      : this.agent.request(method as keyof Requests, params as Requests[keyof Requests][0]);
    if (SENDING.has(method)) this.sending = Promise.allSettled([this.sending, answered]);
    const result = await answered;
    this.relay.flush();
    return method === "conversation/open" ? this.relay.withLiveText(result as OpenResult) : result;
  }

  /** If the page has gone when the message arrives, the message is no longer the draft of the next one. */
  private async send(method: Sending, params: Requests[Sending][0]): Promise<unknown> {
    const page = this.nPages;
    const draft = draftIn(this.memory);
    await this.editors.send();
    const result = await this.agent.request(method, params);
    if (page === this.nPages) return result;
    await this.context.workspaceState.update(MEMORY, {
      ...this.memory,
      ...("conversation" in result && { conversationId: result.conversation.id }),
      ...(draft === draftIn(this.memory) && { draft: "", attached: [] }),
    });
    return result;
  }

  private post(message: ToPanel): void {
    if (this.isReady) void this.view?.webview.postMessage(message);
  }
}

function draftIn({ draft, attached }: PanelMemory): string {
  return JSON.stringify([draft, attached]);
}

/** Script and style are inlined: the page appears sooner, and need not be allowed to load anything. */
async function page(folder: string): Promise<string> {
  const nonce = randomBytes(16).toString("base64");
  const [script, style] = await Promise.all(
    ["main.js", "panel.css"].map((name) => readFile(join(folder, name), "utf8")),
  );
  const policy = `default-src 'none'; style-src 'nonce-${nonce}'; img-src data:; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style nonce="${nonce}">${style}</style>
<title>oh</title>
</head>
<body><script nonce="${nonce}">${script}</script></body>
</html>`;
}
