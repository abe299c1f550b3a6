/** Approvals that wait in this window, for the badge, the keys, the diff's title and the notification. */

import { commands, type Disposable, EventEmitter, window } from "vscode";
import type { Agent } from "./agent";
import type { Diffs } from "./diff";
import type { Notification } from "./messages";
import type { Approval } from "./protocol";

/** A click or key meant for something else must not answer a question that has just appeared. */
const INERT_MS = 400;

export class Approvals implements Disposable {
  private readonly waiting = new Map<string, { approval: Approval; since: number }>();
  private readonly changed = new EventEmitter<number>();
  readonly onCount = this.changed.event;
  private readonly listeners: Disposable[];

  constructor(
    private readonly agent: Agent,
    private readonly diffs: Diffs,
    private readonly isPanelVisible: () => boolean,
  ) {
    this.listeners = [
      agent.onApproval((approval) => this.add(approval)),
      agent.onNotification((notification) => this.onNotification(notification)),
      agent.onState(({ kind }) => kind !== "running" && this.clear()),
    ];
  }

  /** Answers the oldest one, for the keys and the buttons of the diff editor. */
  async answer(effect: "allow" | "reject"): Promise<void> {
    const oldest = [...this.waiting.values()][0];
    if (!oldest || Date.now() - oldest.since < INERT_MS) return;
    const { approval } = oldest;
    const option = approval.options.find((each) => each.effect === effect && each.scope === "once");
    if (!option) return;
    await this.agent.request("approval/respond", { approvalId: approval.id, digest: approval.digest, optionId: option.id });
  }

  dispose(): void {
    for (const each of [...this.listeners, this.changed]) each.dispose();
  }

  private add(approval: Approval): void {
    this.waiting.set(approval.id, { approval, since: Date.now() });
    this.announce();
    if (!this.isPanelVisible()) void this.notify(approval);
  }

  private async notify(approval: Approval): Promise<void> {
    const answer = await window.showWarningMessage(`The agent asks: ${approval.title}`, "Review");
    if (answer) await commands.executeCommand("oh.chat.focus");
  }

  private onNotification({ method, params }: Notification): void {
    if (method !== "conversation/event" || params.event.type !== "approval.resolved") return;
    const { approvalId } = params.event;
    if (this.waiting.delete(approvalId)) this.announce();
    void this.diffs.closeProposal(approvalId);
  }

  private clear(): void {
    this.waiting.clear();
    this.announce();
  }

  private announce(): void {
    this.changed.fire(this.waiting.size);
    void commands.executeCommand("setContext", "oh.approvalPending", this.waiting.size > 0);
  }
}
