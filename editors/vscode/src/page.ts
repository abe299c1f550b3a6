/** One webview with a conversation, in the side bar or in a tab: passes its requests to the daemon.
 * It keeps what the page remembers, for the time in which that is hidden. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Disposable, WebviewPanel, WebviewView } from "vscode";
import type { Agent } from "./agent";
import type { EditorContext } from "./context";
import type { Handlers } from "./host";
import type { FromPanel, HostRequests, PanelMemory, ToPanel } from "./messages";
import type { OpenResult, Requests } from "oh-daemon-client/protocol";
import { errorInfo, type Relay } from "./relay";

/** A daemon that hangs must not keep the panel empty. */
const MAX_WAIT_MS = 5000;
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
  "changes/keep",
  "changes/undo",
  "changes/apply",
  "changes/discard",
  "port/list",
  "port/open",
  "model/list",
  "config/read",
]);
type Sending = "conversation/start" | "conversation/sendMessage";
const SENDING: ReadonlySet<string> = new Set<Sending>(["conversation/start", "conversation/sendMessage"]);

/** What all pages of the window share. */
export interface PageParts {
  agent: Agent;
  editors: EditorContext;
  host: Handlers;
  relay: Relay;
  /** The folder with the page's script and style. */
  folder: string;
}

/** Where a page's memory is kept. */
export interface Kept {
  read(): PanelMemory;
  write(memory: PanelMemory): Thenable<void>;
}

export class Page implements Disposable {
  private view: WebviewView | WebviewPanel | undefined;
  private isReady = false;
  /** Counts the pages that came and went: the answer to a page that is gone must reach the next one. */
  private nPages = 0;
  /** Settles when the messages on their way to the daemon have arrived, or cannot. */
  private sending: Promise<unknown> = Promise.resolve();
  private unsent: ToPanel[] = [];
  private readonly listeners: Disposable[];
  private asked: string | undefined;

  constructor(
    private readonly parts: PageParts,
    private readonly kept: Kept,
    private readonly onTitle: (title: string) => void,
  ) {
    const { agent, editors } = parts;
    this.listeners = [
      editors.onLooking((looking) => this.post({ type: "looking", ...(looking && { looking }) })),
      agent.onState((daemon) => this.post({ type: "daemon", daemon })),
    ];
  }

  get isVisible(): boolean {
    return this.view?.visible ?? false;
  }

  get memory(): PanelMemory {
    return this.kept.read();
  }

  get isThere(): boolean {
    return this.isReady;
  }

  /** The approval or question that the page shows. */
  get askedId(): string | undefined {
    return this.isReady ? this.asked : undefined;
  }

  /** Sends it now, or as soon as the page has opened. Show it first: a page that is going away would take it along. */
  tell(message: ToPanel): void {
    if (this.isReady) this.post(message);
    else this.unsent.push(message);
  }

  /** Sends it now, or never. */
  post(message: ToPanel): void {
    if (this.isReady) void this.view?.webview.postMessage(message);
  }

  async show(view: WebviewView | WebviewPanel): Promise<void> {
    this.view = view;
    const isTab = "onDidChangeViewState" in view;
    view.webview.options = { enableScripts: true, localResourceRoots: [] };
    view.webview.onDidReceiveMessage((message: FromPanel) => void this.receive(message));
    // A hidden view loses its page; messages for it wait until the next page says that it is ready.
    const onVisibility = () => {
      if (!view.visible) this.onPageGone();
    };
    if (isTab) view.onDidChangeViewState(onVisibility);
    else view.onDidChangeVisibility(onVisibility);
    view.onDidDispose(() => {
      // A view that was moved may end after its successor has begun.
      if (this.view !== view) return;
      this.view = undefined;
      this.onPageGone();
    });
    void this.parts.agent.start();
    view.webview.html = await html(this.parts.folder, isTab ? "editor" : "side");
  }

  dispose(): void {
    for (const each of this.listeners) each.dispose();
  }

  private async receive(message: FromPanel): Promise<void> {
    if (message.type === "memory") {
      await this.kept.write(message.memory);
      return;
    }
    if (message.type === "asks") {
      this.asked = message.id;
      return;
    }
    if (message.type === "title") return this.onTitle(message.title);
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
    const { agent, editors } = this.parts;
    const { looking } = editors;
    this.post({ type: "init", memory: this.memory, daemon: agent.state, ...(looking && { looking }) });
    for (const each of this.unsent.splice(0)) this.post(each);
  }

  /** Data enters here: the panel is our own code, and `Calls` types its requests where they are made. */
  private async answer(method: string, params: unknown): Promise<unknown> {
    const { agent, host, relay } = this.parts;
    if (method in host) {
      const handler = host[method as keyof HostRequests] as (params: unknown) => Promise<unknown>;
      return handler(params);
    }
    if (!DAEMON_METHODS.has(method)) throw new Error(`the panel may not call ${method}`);
    const answered = SENDING.has(method)
      ? this.send(method as Sending, params as Requests[Sending][0])
      : agent.request(method as keyof Requests, params as Requests[keyof Requests][0]);
    if (SENDING.has(method)) this.sending = Promise.allSettled([this.sending, answered]);
    const result = await answered;
    relay.flush();
    return method === "conversation/open" ? relay.withLiveText(result as OpenResult) : result;
  }

  /** If the page has gone when the message arrives, the message is no longer the draft of the next one. */
  private async send(method: Sending, params: Requests[Sending][0]): Promise<unknown> {
    const page = this.nPages;
    const draft = draftIn(this.memory);
    await this.parts.editors.send();
    const result = await this.parts.agent.request(method, params);
    if (page === this.nPages) return result;
    await this.kept.write({
      ...this.memory,
      ...("conversation" in result && { conversationId: result.conversation.id }),
      ...(draft === draftIn(this.memory) && { draft: "", attached: [] }),
    });
    return result;
  }
}

function draftIn({ draft, attached }: PanelMemory): string {
  return JSON.stringify([draft, attached]);
}

/** Script and style are inlined: the page appears sooner, and need not be allowed to load anything. */
async function html(folder: string, place: "side" | "editor"): Promise<string> {
  const nonce = randomBytes(16).toString("base64");
  const [script, style] = await Promise.all(
    ["main.js", "panel.css"].map((name) => readFile(join(folder, name), "utf8")),
  );
  const policy = `default-src 'none'; style-src 'nonce-${nonce}'; img-src data:; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en" data-place="${place}">
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
