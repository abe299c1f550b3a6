/** The attempts at one task, side by side: what each has changed, whether its check passes, and which one is applied. */

import type { Way } from "../src/messages";
import type { Notification } from "oh-daemon-client/store";
import type { ConversationInfo, Item, ReviewedFile } from "oh-daemon-client/protocol";
import { formatCount } from "../src/words";
import { counts } from "./diff";
import { h, icon, type IconName } from "./dom";
import { call, hasEditor, report, run } from "./host";
import { doing } from "./list";
import { isWaiting } from "oh-daemon-client/store";

const N_LISTED = 50;
const BUSY: ReadonlySet<string> = new Set(["running", "waiting", "pausing", "interrupting"]);

interface Attempt {
  info: ConversationInfo;
  way: Way;
  files: readonly ReviewedFile[];
  /** How its check ended, unless it has changed something since. */
  exit?: number | undefined;
  problem?: string | undefined;
}

export class Attempts {
  readonly element = h("section.changes.attempts", { "aria-label": "Attempts", hidden: true });
  private readonly attempts = new Map<string, Attempt>();
  private readonly reads = new Map<string, number>();
  private group = "";
  private shown = "";

  constructor(
    private readonly onOpen: (conversationId: string) => void,
    private readonly redraw: () => void,
  ) {}

  draw(current: ConversationInfo | undefined): void {
    const group = current ? (wayOf(current)?.group ?? "") : "";
    if (group !== this.group) {
      this.group = group;
      this.attempts.clear();
      if (group) this.load().catch(report);
    }
    this.element.hidden = this.attempts.size === 0;
    const key = JSON.stringify([current?.id, ...[...this.attempts.values()].map(drawn)]);
    // Drawn anew only for a reason, so that no click gets lost.
    if (key === this.shown) return;
    this.shown = key;
    this.element.replaceChildren(
      this.head(),
      h("ul.files", {}, ...[...this.attempts.values()].map((each) => this.row(each, each.info.id === current?.id))),
    );
  }

  onNotification({ method, params }: Notification): void {
    if (method === "conversation/changed") this.onChanged(params.conversation, params.change === "deleted");
    if (method !== "conversation/event") return;
    const attempt = this.attempts.get(params.conversationId);
    const { event } = params;
    if (!attempt) return;
    // What commands changed there is told by no event.
    if (event.type === "status.changed") this.refresh(attempt);
  }

  private onChanged(info: ConversationInfo, isDeleted: boolean): void {
    const attempt = this.attempts.get(info.id);
    const way = wayOf(info);
    if (isDeleted) this.attempts.delete(info.id);
    else if (attempt && way) Object.assign(attempt, { info, way });
    else if (this.group && way?.group === this.group) this.load().catch(report);
  }

  private async load(): Promise<void> {
    const { group } = this;
    const { conversations } = await call("conversation/list", { limit: N_LISTED });
    if (group !== this.group) return;
    // The oldest first; the rows that are drawn know the attempts that are there already.
    for (const info of conversations.toReversed()) {
      const way = wayOf(info);
      if (way?.group !== group || this.attempts.has(info.id)) continue;
      const attempt: Attempt = { info, way, files: [] };
      this.attempts.set(info.id, attempt);
      this.refresh(attempt);
    }
    this.redraw();
  }

  /** Reads what became of the attempt; of several reads only the last one counts. */
  private refresh(attempt: Attempt): void {
    const { id } = attempt.info;
    const read = (this.reads.get(id) ?? 0) + 1;
    this.reads.set(id, read);
    readAttempt(attempt)
      .catch((error: unknown) => ({ problem: messageOf(error) }))
      .then((found) => {
        if (read !== this.reads.get(id)) return;
        Object.assign(attempt, found);
        this.redraw();
      })
      .catch(report);
  }

  private head(): HTMLElement {
    const all = [...this.attempts.values()];
    const [first] = all;
    const others = all.filter(({ way, files }) => !way.outcome && files.length > 0);
    const hasApplied = all.some(({ way }) => way.outcome === "applied");
    return h(
      "div.changes-head",
      {},
      h("span.changes-title", {}, formatCount(all.length, "attempt")),
      first?.way.check
        ? h("span.hint", { title: first.way.check }, "check: ", h("code", {}, first.way.check))
        : undefined,
      hasApplied &&
        others.length > 0 &&
        h("button.quiet", { onclick: () => this.discard(others) }, "Discard the others"),
    );
  }

  private row(attempt: Attempt, isCurrent: boolean): HTMLElement {
    const { info, way, files, exit, problem } = attempt;
    const { name } = way;
    const isBusy = BUSY.has(info.status);
    const conversationId = info.id;
    const sum = (key: "added" | "removed") => files.reduce((total, each) => total + each[key], 0);
    const button = (label: string, isPossible: boolean, onclick: () => void) =>
      h("button.quiet", { "aria-label": `${label}: ${name}`, disabled: !isPossible, onclick }, label);
    const hasFiles = files.length > 0;
    const isOpen = hasFiles || !way.outcome;
    return h(
      "li.file.attempt",
      { "data-status": info.status, "data-outcome": way.outcome },
      h(
        "div.file-row",
        {},
        h(
          "button.disclose",
          { title: info.title, "aria-current": isCurrent && "true", onclick: () => this.onOpen(conversationId) },
          icon(iconOf(attempt)),
          h("span.name", {}, name),
        ),
        h("span.state-word", {}, way.outcome ?? doing(info) ?? "done"),
        isOpen && counts(sum("added"), sum("removed")),
        way.check !== "" && h("span.badge", { "data-exit": exit }, exit === undefined ? "not checked" : `exit ${exit}`),
      ),
      isOpen &&
        h(
          "div.attempt-actions",
          {},
          button("Open diff", hasFiles && hasEditor, () => run("host/openTurn", { conversationId, changes: files })),
          button("Apply", hasFiles && !isBusy, () => this.settle(attempt, "applied")),
          button("Discard", !way.outcome, () => this.settle(attempt, "discarded")),
        ),
      problem !== undefined && h("p.conflict", { role: "alert" }, icon("hand"), ` ${problem}`),
    );
  }

  private discard(attempts: readonly Attempt[]): void {
    for (const each of attempts) this.settle(each, "discarded");
  }

  private settle(attempt: Attempt, outcome: "applied" | "discarded"): void {
    settleAttempt(attempt, outcome)
      .catch((error: unknown) => {
        attempt.problem = messageOf(error);
      })
      .then(() => this.refresh(attempt))
      .catch(report);
  }
}

/** What a row shows of the attempt; much else of its conversation changes all the time. */
function drawn({ info, way, files, exit, problem }: Attempt): unknown[] {
  const { id, title, status } = info;
  return [id, title, status, doing(info), way, files, exit, problem];
}

function wayOf({ metadata: { way } }: ConversationInfo): Way | undefined {
  // Data enters here: `startAttempts` has written it.
  return typeof way === "object" && way !== null && "group" in way ? (way as Way) : undefined;
}

/** Opens the attempt, which may have been closed since. */
async function readAttempt({ info, way }: Attempt): Promise<Partial<Attempt>> {
  const conversationId = info.id;
  const { conversation, items } = await call("conversation/open", { conversationId });
  const { files } = await call("changes/list", { conversationId });
  return {
    info: conversation,
    exit: exitIn(items ?? [], way.check),
    files: files.filter(({ state }) => isWaiting(state)),
  };
}

/** How the check ended, unless something may have changed since. */
function exitIn(items: readonly Item[], check: string): number | undefined {
  const last = items.findLast(({ kind }) => kind === "command" || kind === "fileChange");
  return last?.kind === "command" && last.command.trim() === check ? last.exitCode : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

async function settleAttempt(attempt: Attempt, outcome: "applied" | "discarded"): Promise<void> {
  const { id: conversationId, status } = attempt.info;
  attempt.problem = undefined;
  if (BUSY.has(status)) await call("conversation/interrupt", { conversationId });
  const method = outcome === "applied" ? "changes/apply" : "changes/discard";
  // Without names, protected files are not applied.
  const { done, conflicts } = await call(method, { conversationId });
  attempt.problem = conflicts.map(({ reason }) => reason).join("; ") || undefined;
  if (done.length === 0 && conflicts.length > 0) return;
  await call("conversation/update", { conversationId, metadata: { way: { ...attempt.way, outcome } } });
}

function iconOf({ info, way, exit }: Attempt): IconName {
  if (BUSY.has(info.status)) return info.status === "waiting" ? "hand" : "arc";
  if (info.status === "error" || way.outcome === "discarded") return "cross";
  return exit === undefined || exit === 0 ? "check" : "danger";
}
