/** The pages with conversations: the one in the side bar, and one in each tab of the editor area. */

import { join } from "node:path";
import {
  type Disposable,
  type ExtensionContext,
  Uri,
  ViewColumn,
  type WebviewPanel,
  type WebviewPanelSerializer,
  type WebviewView,
  type WebviewViewProvider,
  window,
} from "vscode";
import type { Agent } from "./agent";
import { Colors } from "./colors";
import type { EditorContext } from "./context";
import type { Diffs } from "./diff";
import { hostHandlers } from "./host";
import type { PanelMemory, ToPanel } from "./messages";
import { Page, type PageParts } from "./page";
import type { LeftOut } from "./proposal";
import { Relay } from "./relay";
import { formatCount, oneLine } from "./words";

export const TAB = "oh.conversation";
const MEMORY = "oh.panel";
const MAX_TITLE_CHARS = 40;

export class Panel implements WebviewViewProvider, WebviewPanelSerializer<PanelMemory>, Disposable {
  private view: WebviewView | undefined;
  private readonly side: Page;
  private readonly tabs = new Map<WebviewPanel, Page>();
  private readonly parts: PageParts;
  private readonly relay = new Relay((batch) => {
    for (const page of this.pages) page.post({ type: "notifications", batch });
  });
  private readonly owned: Disposable[];

  constructor(
    private readonly context: ExtensionContext,
    agent: Agent,
    diffs: Diffs,
    editors: EditorContext,
  ) {
    const colors = new Colors(context.asAbsolutePath(join("dist", "tokens.js")));
    const host = hostHandlers(agent, diffs, editors, colors);
    const folder = context.asAbsolutePath(join("dist", "webview"));
    this.parts = { agent, editors, host, relay: this.relay, folder };
    const kept = {
      read: () => context.workspaceState.get<PanelMemory>(MEMORY, {}),
      write: (memory: PanelMemory) => context.workspaceState.update(MEMORY, memory),
    };
    this.side = new Page(this.parts, kept, () => undefined);
    this.owned = [
      colors,
      this.relay,
      this.side,
      agent.onNotification((notification) =>
        this.relay.take(
          notification,
          this.pages.some((page) => page.isThere),
        ),
      ),
      agent.onState(({ kind }) => kind !== "running" && this.relay.forget()),
    ];
  }

  get isVisible(): boolean {
    return this.pages.some((page) => page.isVisible);
  }

  /** The conversation in the tab that has the focus, or else in the side bar. */
  get conversationId(): string | undefined {
    return this.current.memory.conversationId;
  }

  /** What the user has chosen for the next conversation. */
  get options(): Record<string, string> {
    return this.side.memory.options ?? {};
  }

  /** The approval or question that is shown, first by the tab that has the focus. */
  get askedId(): string | undefined {
    return this.asking?.askedId;
  }

  /** Presses a button of what is asked. */
  press(optionId: string): void {
    this.asking?.tell({ type: "press", optionId });
  }

  /** The changes that the user has left out of a pending edit. */
  omitted(approvalId: string): LeftOut {
    const halves = this.pages.map((page) => page.memory.halfAnswers?.[approvalId]?.omitted);
    return halves.find((each) => each !== undefined) ?? [];
  }

  showBadge(nWaiting: number, nEnded: number): void {
    if (!this.view) return;
    const waiting = nWaiting === 1 ? "1 action waits for approval" : `${nWaiting} actions wait for approval`;
    const words = [nWaiting > 0 && waiting, nEnded > 0 && `${formatCount(nEnded, "turn")} ended while you were away`];
    const value = nWaiting + nEnded;
    this.view.badge = value > 0 ? { value, tooltip: words.filter(Boolean).join(", ") } : undefined;
  }

  /** Tells the page in the side bar. Show that first: a page that is going away would take the message along. */
  tell(message: ToPanel): void {
    this.side.tell(message);
  }

  /** Shows the tab with this conversation, and answers whether there is one. */
  reveal(conversationId: string): boolean {
    const tab = [...this.tabs].find(([, page]) => page.memory.conversationId === conversationId);
    tab?.[0].reveal();
    return tab !== undefined;
  }

  /** Shows a conversation in a tab: this one, that of the side bar, or if there is none, one that is to begin. */
  async openInEditor(conversationId = this.side.memory.conversationId): Promise<void> {
    if (conversationId !== undefined && this.reveal(conversationId)) return;
    const { options } = this.side.memory;
    const memory = { ...(conversationId !== undefined && { conversationId }), ...(options && { options }) };
    await this.addTab(window.createWebviewPanel(TAB, "oh", ViewColumn.Active), memory);
  }

  /** Shows a tab again after the window was reloaded. */
  deserializeWebviewPanel(tab: WebviewPanel, memory: PanelMemory | undefined): Promise<void> {
    return this.addTab(tab, memory ?? {});
  }

  resolveWebviewView(view: WebviewView): Promise<void> {
    this.view = view;
    view.onDidDispose(() => {
      if (this.view === view) this.view = undefined;
    });
    return this.side.show(view);
  }

  dispose(): void {
    for (const each of [...this.tabs.values(), ...this.owned]) each.dispose();
  }

  private get pages(): Page[] {
    return [this.side, ...this.tabs.values()];
  }

  private get current(): Page {
    return [...this.tabs].find(([tab]) => tab.active)?.[1] ?? this.side;
  }

  private get asking(): Page | undefined {
    return [this.current, this.side].find((page) => page.askedId !== undefined);
  }

  /** The page itself keeps its memory over a reload; here it is kept while the tab is hidden. */
  private async addTab(tab: WebviewPanel, memory: PanelMemory): Promise<void> {
    let now = memory;
    const kept = {
      read: () => now,
      write: async (written: PanelMemory) => {
        now = written;
      },
    };
    const page = new Page(this.parts, kept, (title) => {
      tab.title = oneLine(title, MAX_TITLE_CHARS) || "New conversation";
    });
    tab.iconPath = Uri.file(this.context.asAbsolutePath(join("media", "icon.png")));
    this.tabs.set(tab, page);
    tab.onDidDispose(() => {
      this.tabs.delete(tab);
      page.dispose();
    });
    await page.show(tab);
  }
}
