/**
 * The files that a turn changed; each file and each of its hunks can be kept or undone. In an isolated
 * conversation all that waits is in one card of its own, where they are applied or discarded.
 */

import type { ChangesDiffResult, FileChange, Hunk, Conflict } from "oh-daemon-client/protocol";
import { formatCount } from "../src/words";
import { counts, diffLines, hunkCard, hunkLines, middleCut, pathIn } from "./diff";
import { h, icon } from "./dom";
import { call, hasEditor, report, run } from "./host";
import { isWaiting, type Store } from "oh-daemon-client/store";
import type { ChangesItem } from "oh-daemon-client/turns";

type Decision = "keep" | "undo";
type Named = Hunk & { uri: string };

/** Stands for no turn: all that an isolated conversation has changed. */
const ISOLATED = "isolated";
/** The methods for changes that are not applied yet. */
const APPLYING = { keep: "apply", undo: "discard" } as const;
const WORDS: Record<string, string> = { kept: "kept", undone: "undone" };

export class Review {
  private readonly expanded = new Set<string>();
  private readonly conflicts = new Map<string, string>();
  private diffs: ReadonlyMap<string, ChangesDiffResult> = new Map();
  private shownId = "";
  private nLoads = 0;
  /** Another one whenever a card may look different. */
  version = 0;

  constructor(private readonly onChanged: () => void) {}

  /** Loads the review state of the files, and shows it once all is known; of several loads only the last one does. */
  async load(store: Store): Promise<void> {
    const conversationId = store.info.id;
    const load = ++this.nLoads;
    if (this.shownId !== conversationId) {
      this.expanded.clear();
      this.conflicts.clear();
      this.shownId = conversationId;
    }
    const { files } = await call("changes/list", { conversationId });
    const open = files.filter(({ uri, state }) => this.expanded.has(uri) && isWaiting(state));
    const diffs = await Promise.all(
      open.map(async ({ uri }) => [uri, await call("changes/diff", { conversationId, uri })] as const),
    );
    if (load !== this.nLoads) return;
    this.diffs = new Map(diffs);
    store.setReviews(files);
    this.version += 1;
    this.onChanged();
  }

  /** What an isolated conversation has not applied yet; nothing for others. */
  isolated(store: Store | undefined): HTMLElement | undefined {
    if (!store?.info.isolated) return undefined;
    const files = [...store.reviews.values()].filter(({ state }) => isWaiting(state));
    return this.card({ kind: "changes", id: ISOLATED, turnId: ISOLATED, files }, store);
  }

  card(item: ChangesItem, store: Store): HTMLElement {
    const changes = item.files;
    const pending = changes.filter(({ uri }) => this.isPendingHere(item, store, uri));
    const isIsolated = item.id === ISOLATED;
    const counted = changes.length ? `${formatCount(changes.length, "file")} changed` : "nothing to apply";
    const words = isIsolated ? `Isolated · ${counted}` : counted;
    const [keep, undo] = isIsolated ? ["Apply all", "Discard all"] : ["Keep all", "Undo all"];
    const hasAll = pending.length > (isIsolated ? 0 : 1);
    const all = (decision: Decision) =>
      this.settle(
        store,
        decision,
        // Without names, protected files are not applied.
        isIsolated ? [] : pending.map(({ uri }) => uri),
      );
    const open = () => run("host/openTurn", { conversationId: store.info.id, changes });
    return h(
      "section.changes",
      { "aria-label": words },
      h(
        "div.changes-head",
        {},
        h("span.changes-title", {}, words, counts(sum(changes, "added"), sum(changes, "removed"))),
        h(
          "span.changes-actions",
          {},
          hasEditor &&
            changes.length > 0 &&
            h("button.quiet", { title: "All changes in one diff", onclick: open }, "Review"),
          hasAll && h("button.quiet", { onclick: () => all("keep") }, keep),
          hasAll && h("button.quiet", { onclick: () => all("undo") }, undo),
        ),
      ),
      h("ul.files", {}, ...changes.map((change) => this.file(item, store, change))),
    );
  }

  private file(item: ChangesItem, store: Store, change: FileChange): HTMLElement {
    const { uri } = change;
    const isPending = this.isPendingHere(item, store, uri);
    const isOpen = isPending && this.expanded.has(uri);
    const conflict = isPending ? this.conflicts.get(uri) : undefined;
    const name = pathIn(uri);
    const label = [icon("chevron"), h("span.name", {}, ...middleCut(name))];
    const toggle = () => void this.toggle(store, uri).catch(report);
    const open = () => void this.open(item, store, uri).catch(report);
    return h(
      "li.file",
      { "data-uri": uri, "data-state": isPending ? "pending" : this.word(item, store, uri) },
      h(
        "div.file-row",
        {},
        isPending
          ? h("button.disclose", { "aria-expanded": String(isOpen), title: uri, onclick: toggle }, ...label)
          : h("button.disclose.settled", { title: uri, onclick: open }, ...label.slice(1)),
        counts(change.added, change.removed),
        isPending
          ? h("span.pair", {}, ...this.pair(store, name, (decision) => this.settle(store, decision, [uri])))
          : h("span.state-word", {}, WORDS[this.word(item, store, uri)] ?? this.word(item, store, uri)),
      ),
      conflict !== undefined && h("p.conflict", { role: "alert" }, icon("hand"), ` ${conflict}`),
      isOpen && this.hunks(store, uri),
    );
  }

  private hunks(store: Store, uri: string): HTMLElement {
    const diff = this.diffs.get(uri);
    if (!diff) return h("div.hunks", {}, h("p.note", {}, "Loading"));
    const name = pathIn(uri);
    return h(
      "div.hunks",
      {},
      ...diff.hunks.map((hunk, i) => {
        const title = `change ${i + 1} of ${diff.hunks.length} in ${name}`;
        const settle = (decision: Decision) => this.settle(store, decision, [], [{ ...hunk, uri }]);
        const head = [
          h("span", {}, `Line ${hunk.newStart + 1}`),
          h("span.pair", {}, ...this.pair(store, title, settle)),
        ];
        return hunkCard(title, head, diffLines(title, uri, hunkLines(diff, hunk), hunk));
      }),
    );
  }

  private pair(store: Store, of: string, act: (decision: Decision) => void): HTMLElement[] {
    const button = (decision: Decision, label: string, name: "check" | "undo") =>
      h(
        `button.quiet.${decision}`,
        { title: `${label} ${of}`, "aria-label": `${label} ${of}`, onclick: () => act(decision) },
        icon(name),
      );
    const [keep, undo] = store.info.isolated ? ["Apply", "Discard"] : ["Keep", "Undo"];
    return [button("keep", keep, "check"), button("undo", undo, "undo")];
  }

  private async toggle(store: Store, uri: string): Promise<void> {
    if (!this.expanded.delete(uri)) this.expanded.add(uri);
    await this.load(store);
  }

  /** Opens a file of which nothing is left to decide; a click that comes before that is known shows its changes. */
  private async open(item: ChangesItem, store: Store, uri: string): Promise<void> {
    if (store.canReview && !store.reviews.has(uri)) await this.load(store);
    if (this.isPendingHere(item, store, uri)) await this.toggle(store, uri);
    else if (hasEditor) await call("host/openFile", { uri });
  }

  private settle(store: Store, decision: Decision, uris: readonly string[], hunks: readonly Named[] = []): void {
    const method = `changes/${store.info.isolated ? APPLYING[decision] : decision}` as const;
    call(method, { conversationId: store.info.id, uris, hunks })
      .then(({ done, conflicts }) => this.note(done, conflicts))
      .then(() => this.load(store))
      .catch(report);
  }

  private note(done: readonly string[], conflicts: readonly Conflict[]): void {
    for (const uri of done) this.conflicts.delete(uri);
    for (const { uri, reason } of conflicts) this.conflicts.set(uri, reason);
  }

  /** All pending changes of a file are reviewed in the turn that changed it last. */
  private isPendingHere(item: ChangesItem, store: Store, uri: string): boolean {
    const isHere = store.info.isolated ? item.id === ISOLATED : store.turns.lastOf(uri) === item.turnId;
    return store.canReview && isHere && isWaiting(store.reviews.get(uri)?.state);
  }

  private word(item: ChangesItem, store: Store, uri: string): string {
    const state = store.reviews.get(uri)?.state;
    if (store.info.isolated) return "";
    if (store.turns.lastOf(uri) !== item.turnId) return "changed again below";
    return state === undefined || isWaiting(state) ? "" : state;
  }
}

function sum(changes: readonly FileChange[], key: "added" | "removed"): number {
  return changes.reduce((total, change) => total + change[key], 0);
}
