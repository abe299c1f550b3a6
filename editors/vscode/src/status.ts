/** The status-bar item: what the agents of this window do, in a word. */

import { type Disposable, StatusBarAlignment, ThemeColor, window } from "vscode";
import type { Agent } from "./agent";
import type { Approvals } from "./approvals";
import type { DaemonState } from "./messages";
import type { ConversationState } from "./protocol";

const LOOKS = {
  failed: { text: "$(error) oh", tooltip: "The daemon does not run. Click for the way out." },
  waiting: { text: "$(bell-dot) oh: your turn", tooltip: "An action waits for your approval." },
  running: { text: "$(loading~spin) oh: working", tooltip: "The agent works. Click to watch." },
  paused: { text: "$(debug-pause) oh: paused", tooltip: "A turn is on hold." },
  idle: { text: "$(comment) oh", tooltip: "Open the agent panel." },
};
const BUSY: readonly ConversationState[] = ["running", "pausing", "interrupting"];

export class StatusItem implements Disposable {
  private readonly item = window.createStatusBarItem("oh.status", StatusBarAlignment.Right, 90);
  private readonly statuses = new Map<string, ConversationState>();
  private readonly listeners: Disposable[];
  private nPending = 0;

  constructor(agent: Agent, approvals: Approvals) {
    this.item.name = "oh";
    this.item.command = "oh.focus";
    this.listeners = [
      agent.onState((state) => {
        if (state.kind !== "running") this.statuses.clear();
        this.show(state);
      }),
      approvals.onCount((count) => {
        this.nPending = count;
        this.show(agent.state);
      }),
      agent.onNotification(({ method, params }) => {
        if (method !== "conversation/changed") return;
        this.statuses.set(params.conversation.id, params.conversation.status);
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
    const look = this.look(daemon);
    this.item.text = LOOKS[look].text;
    this.item.tooltip = LOOKS[look].tooltip;
    this.item.accessibilityInformation = { label: LOOKS[look].tooltip, role: "button" };
    this.item.backgroundColor =
      look === "waiting" ? new ThemeColor("statusBarItem.warningBackground") : undefined;
  }

  private look(daemon: DaemonState): keyof typeof LOOKS {
    if (daemon.kind === "failed") return "failed";
    if (this.nPending > 0) return "waiting";
    const statuses = [...this.statuses.values()];
    if (statuses.some((status) => BUSY.includes(status))) return "running";
    return statuses.includes("paused") ? "paused" : "idle";
  }
}
