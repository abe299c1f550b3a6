/** Requests that await the user in this window: for the badge, the keys, the diff's title and the notification. */

import { commands, type Disposable, EventEmitter, type Uri, window } from "vscode";
import type { Agent } from "./agent";
import { showConversation } from "./commands";
import type { Diffs } from "./diff";
import { shownDiff } from "./difftitle";
import type { Notification } from "oh-daemon-client/store";
import type { Notices } from "./notices";
import type { Panel } from "./panel";
import { canAnswer, editedSubject, type LeftOut, proposalOf } from "./proposal";
import type { Approval, FileChange, InputRequest } from "oh-daemon-client/protocol";

/** A click or key meant for something else must not answer a question that has just appeared. */
const INERT_MS = 400;

export class Approvals implements Disposable {
  private readonly waiting = new Map<string, Approval | InputRequest>();
  /** When the current request became the first one, or was shown to the user. */
  private since = 0;
  private readonly changed = new EventEmitter<number>();
  readonly onCount = this.changed.event;
  private readonly listeners: Disposable[];

  constructor(
    private readonly agent: Agent,
    private readonly diffs: Diffs,
    private readonly panel: Panel,
    /** Whether the user has answered this in advance; calls `ask` if the answer fails. */
    isAnswered: (asked: Approval | InputRequest, ask: () => void) => boolean,
    private readonly notices: Notices,
  ) {
    this.listeners = [
      agent.onApproval((asked) => isAnswered(asked, () => this.add(asked)) || this.add(asked)),
      agent.onNotification((notification) => this.onNotification(notification)),
      agent.onState(({ kind }) => kind !== "running" && this.clear()),
    ];
  }

  /** The agent's edits that wait, file by file; what a command has changed is on no disk yet. */
  get edits(): { approval: Approval; change: FileChange }[] {
    return this.all().flatMap((approval) => {
      const { subject } = approval;
      const isEdit = subject.kind === "fileChange" && subject.origin === undefined;
      return isEdit ? subject.changes.map((change) => ({ approval, change })) : [];
    });
  }

  omitted(approvalId: string): LeftOut {
    return this.panel.omitted(approvalId);
  }

  /** For the keys, the diff's title and the lens: answers what the diff, lens or panel shows; any other is shown first. */
  async answer(effect: "allow" | "reject", clicked?: Uri | { approvalId: string }): Promise<void> {
    const waiting = this.all();
    const isOfLens = clicked !== undefined && "approvalId" in clicked;
    const diff = isOfLens ? undefined : shownDiff(clicked);
    const shownId = isOfLens ? clicked.approvalId : diff?.kind === "proposal" ? diff.approvalId : this.panel.askedId;
    const shown = waiting.find(({ id }) => id === shownId);
    if (!shown) return waiting[0] && this.review(waiting[0]);
    // A host is allowed for the turn at least.
    const option = shown.options.find(({ effect: e, scope }) => e === effect && (scope === "once" || scope === "turn"));
    if (!option) return;
    // The panel adds what was typed there: a note, or a changed command.
    // The panel's buttons are inert at first.
    if (shown.id === this.panel.askedId) return this.panel.press(option.id);
    if (Date.now() - this.since < INERT_MS) return;
    const omitted = this.panel.omitted(shown.id);
    if (!canAnswer(option, proposalOf(shown), omitted)) return this.review(shown);
    const edited = effect === "allow" && editedSubject(shown, omitted);
    await this.agent.request("approval/respond", {
      approvalId: shown.id,
      digest: shown.digest,
      optionId: option.id,
      ...(edited && { editedSubject: edited }),
    });
  }

  get count(): number {
    return this.waiting.size;
  }

  /** Shows the next conversation that waits for the user, after the one in the panel. */
  async next(): Promise<void> {
    const ids = [...new Set([...this.waiting.values()].map(({ conversationId }) => conversationId))];
    const next = ids[(ids.indexOf(this.panel.conversationId ?? "") + 1) % ids.length];
    if (next) await showConversation(next, this.panel);
    else void window.showInformationMessage("No conversation waits for you.");
  }

  /** The note is typed in the panel. */
  async rejectWithNote(): Promise<void> {
    const waiting = this.all();
    const meant = waiting.find(({ id }) => id === this.panel.askedId) ?? waiting[0];
    if (!meant) return;
    await this.review(meant);
    if (meant.id === this.panel.askedId) this.panel.press("note");
  }

  dispose(): void {
    for (const each of [...this.listeners, this.changed]) each.dispose();
  }

  private all(): Approval[] {
    return [...this.waiting.values()].filter((each) => "digest" in each);
  }

  private add(asked: Approval | InputRequest): void {
    this.waiting.set(asked.id, asked);
    this.announce();
    const title = "digest" in asked ? asked.title : asked.prompt;
    const isHidden = !this.panel.isVisible;
    if (isHidden) void this.notify(asked, title);
    this.notices.tell("The agent asks", title, asked.conversationId, !isHidden);
  }

  private async notify(asked: Approval | InputRequest, title: string): Promise<void> {
    const answer = await window.showWarningMessage(`The agent asks: ${title}`, "Review");
    if (answer) await this.review(asked);
  }

  private async review({ conversationId }: Approval | InputRequest): Promise<void> {
    this.since = Date.now();
    await showConversation(conversationId, this.panel);
  }

  private onNotification({ method, params }: Notification): void {
    if (method === "conversation/changed" && params.change === "deleted") this.forget(params.conversation.id);
    if (method !== "conversation/event") return;
    const { event } = params;
    if (event.type === "input.resolved") this.remove(event.inputId);
    if (event.type !== "approval.resolved") return;
    this.remove(event.approvalId);
    void this.diffs.closeProposal(event.approvalId);
  }

  private remove(id: string): void {
    if (this.waiting.delete(id)) this.announce();
  }

  private forget(conversationId: string): void {
    for (const each of [...this.waiting.values()]) if (each.conversationId === conversationId) this.remove(each.id);
  }

  private clear(): void {
    this.waiting.clear();
    this.announce();
  }

  private announce(): void {
    this.since = Date.now();
    this.changed.fire(this.waiting.size);
    void commands.executeCommand("setContext", "oh.approvalPending", this.all().length > 0);
  }
}
