/** The status bar item: says in a word what the agents of this window are doing, and in its tooltip what they used. */

import { commands, type Disposable, MarkdownString, StatusBarAlignment, ThemeColor, window } from "vscode";
import type { Agent } from "./agent";
import type { Approvals } from "./approvals";
import type { DaemonState } from "./messages";
import type { ConversationInfo, ConversationState, SandboxInfo } from "oh-daemon-client/protocol";
import { formatCost } from "./words";

const LOOKS = {
  failed: { text: "$(error) oh", tooltip: "The daemon is not running. Click to see what to do." },
  waiting: { text: "$(bell-dot) oh: your turn", tooltip: "An action waits for your approval." },
  running: { text: "$(loading~spin) oh: working", tooltip: "The agent works. Click to watch." },
  paused: { text: "$(debug-pause) oh: paused", tooltip: "A turn is on hold." },
  error: { text: "$(warning) oh: stopped", tooltip: "An error stopped the agent. Click to see it." },
  idle: { text: "$(comment) oh", tooltip: "Open the agent panel." },
};
const HELD = {
  overlay: "Commands run in an overlay of your files: they change nothing outside it and reach no network.",
  landlock: "Commands that run unasked only read, and reach no network.",
  off: "Nothing holds commands that run unasked.",
};
const BUSY: readonly ConversationState[] = ["running", "pausing", "interrupting"];
const MAX_ROWS = 5;

export class StatusItem implements Disposable {
  private readonly item = window.createStatusBarItem("oh.status", StatusBarAlignment.Right, 90);
  /** The conversation that changed last is at the end. */
  private readonly conversations = new Map<string, ConversationInfo>();
  private readonly listeners: Disposable[];
  private nPending = 0;
  private sandbox: SandboxInfo | undefined;

  constructor(agent: Agent, approvals: Approvals) {
    this.item.name = "oh";
    this.item.command = "oh.focus";
    this.listeners = [
      agent.onState((state) => {
        if (state.kind === "running") void this.askForSandbox(agent);
        else this.conversations.clear();
        this.show(state);
      }),
      approvals.onCount((count) => {
        this.nPending = count;
        this.show(agent.state);
      }),
      agent.onNotification(({ method, params }) => {
        if (method !== "conversation/changed") return;
        this.conversations.delete(params.conversation.id);
        if (params.change !== "deleted") this.conversations.set(params.conversation.id, params.conversation);
        this.show(agent.state);
      }),
    ];
    this.show(agent.state);
    this.item.show();
  }

  dispose(): void {
    for (const each of [...this.listeners, this.item]) each.dispose();
  }

  private show(daemon: DaemonState): void {
    const statuses = [...this.conversations.values()].map(({ status }) => status);
    const look = this.look(daemon, statuses);
    this.item.text = LOOKS[look].text;
    this.item.tooltip = this.tooltip(LOOKS[look].tooltip);
    this.item.accessibilityInformation = { label: LOOKS[look].tooltip, role: "button" };
    this.item.backgroundColor = look === "waiting" ? new ThemeColor("statusBarItem.warningBackground") : undefined;
    const isAny = (...wanted: readonly ConversationState[]) => statuses.some((status) => wanted.includes(status));
    void commands.executeCommand("setContext", "oh.turnRunning", isAny(...BUSY, "waiting"));
    void commands.executeCommand("setContext", "oh.turnPaused", isAny("paused"));
  }

  private async askForSandbox(agent: Agent): Promise<void> {
    // Without an answer, the tooltip does not say what holds commands.
    this.sandbox = await agent.request("daemon/status", {}).then(
      (status) => status.sandbox,
      () => undefined,
    );
    this.show(agent.state);
  }

  private look(daemon: DaemonState, statuses: readonly ConversationState[]): keyof typeof LOOKS {
    if (daemon.kind === "failed" || daemon.kind === "missing") return "failed";
    if (this.nPending > 0) return "waiting";
    if (statuses.some((status) => BUSY.includes(status))) return "running";
    if (statuses.includes("paused")) return "paused";
    return statuses.at(-1) === "error" ? "error" : "idle";
  }

  private tooltip(what: string): MarkdownString {
    const text = new MarkdownString(what);
    for (const info of [...this.conversations.values()].slice(-MAX_ROWS).reverse()) {
      // A title is plain text of the user's, so it is not rendered as Markdown.
      text.appendMarkdown("\n\n").appendText(`${info.title || "Untitled"}: ${describeUsage(info)}`);
    }
    if (this.sandbox) text.appendMarkdown("\n\n").appendText(describeSandbox(this.sandbox));
    return text;
  }
}

function describeSandbox({ level, setting, cause, cure }: SandboxInfo): string {
  const isRefused = setting !== "auto" && setting !== "off" && setting !== level;
  const why = [cause ? `Why: ${cause}.` : "", cure ? `To change that: ${cure}` : ""].filter(Boolean);
  return [isRefused ? `No command runs without the sandbox ${setting}.` : HELD[level], ...why].join(" ");
}

function describeUsage({ usage }: ConversationInfo): string {
  if (!usage) return "nothing used yet";
  const tokens = `${(usage.inputTokens + usage.outputTokens).toLocaleString("en")} tokens`;
  return [tokens, formatCost(usage)].filter(Boolean).join(", ");
}
