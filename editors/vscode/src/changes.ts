/** The agent's changes that wait for review, of all conversations that are open in this window. */

import { type Disposable, EventEmitter, type TextDocument, Uri, window, workspace } from "vscode";
import type { Agent } from "./agent";
import { lineMap } from "./lines";
import type { Notification } from "oh-daemon-client/store";
import type { ChangesDiffResult, ConversationInfo, Hunk, ReviewedFile } from "oh-daemon-client/protocol";

export interface ChangedFile extends ChangesDiffResult {
  conversationId: string;
  /** As the daemon names it. */
  uri: string;
  file: Uri;
  /** Names both texts: while they are the same, so are the hunks. */
  state: string;
}

/** A change in the document as it is now: the lines from `start` up to `end`, counted from 0. */
export interface Place {
  hunk: Hunk;
  start: number;
  end: number;
}

const TOUCHING: ReadonlySet<string> = new Set(["changes.updated", "changes.reviewed", "conversation.rolledBack"]);
const DEBOUNCE_MS = 100;
/** Of more files, the panel shows the rest. */
const MAX_FILES = 100;

export class Changes implements Disposable {
  private readonly byConversation = new Map<string, readonly ChangedFile[]>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private readonly changed = new EventEmitter<void>();
  readonly onChange = this.changed.event;
  private readonly listeners: Disposable[];

  constructor(private readonly agent: Agent) {
    this.listeners = [
      agent.onOpened((info) => this.open(info)),
      agent.onNotification((notification) => this.onNotification(notification)),
      agent.onState(({ kind }) => kind !== "running" && this.forget([...this.byConversation.keys()])),
    ];
  }

  get files(): readonly ChangedFile[] {
    return [...this.byConversation.values()].flat();
  }

  /** If several conversations have changed the file, the one that was opened last counts. */
  of(file: Uri): ChangedFile | undefined {
    return this.files.findLast((each) => each.file.toString() === file.toString());
  }

  /** Decides changes of one conversation; without a hunk, all of the files. What cannot be decided is said. */
  async settle(decision: "keep" | "undo", files: readonly ChangedFile[], hunk?: Hunk): Promise<void> {
    const [first] = files;
    if (!first) return;
    const uris = files.map(({ uri }) => uri);
    const { conflicts } = await this.agent.request(`changes/${decision}`, {
      conversationId: first.conversationId,
      ...(hunk ? { hunks: [{ ...hunk, uri: first.uri }] } : { uris }),
    });
    for (const { uri, reason } of conflicts) {
      void window.showWarningMessage(`oh: ${workspace.asRelativePath(Uri.parse(uri))}: ${reason}`);
    }
  }

  async settleAll(decision: "keep" | "undo"): Promise<void> {
    for (const files of [...this.byConversation.values()]) await this.settle(decision, files);
  }

  dispose(): void {
    for (const each of [...this.listeners, this.changed]) each.dispose();
    for (const each of this.timers.values()) clearTimeout(each);
  }

  /** What an isolated conversation changes is in no buffer, and a sub-agent's changes are its parent's. */
  private open({ id, isolated, parentId }: ConversationInfo): void {
    if (isolated || parentId !== undefined) return;
    if (!this.byConversation.has(id)) this.byConversation.set(id, []);
    this.loadSoon(id);
  }

  private onNotification({ method, params }: Notification): void {
    if (method === "conversation/changed" && params.change === "deleted") this.forget([params.conversation.id]);
    if (method !== "conversation/event" || !TOUCHING.has(params.event.type)) return;
    if (this.byConversation.has(params.conversationId)) this.loadSoon(params.conversationId);
  }

  private forget(conversationIds: readonly string[]): void {
    for (const id of conversationIds) this.byConversation.delete(id);
    if (conversationIds.length > 0) this.changed.fire();
  }

  private loadSoon(conversationId: string): void {
    clearTimeout(this.timers.get(conversationId));
    const timer: NodeJS.Timeout = setTimeout(() => {
      const isLatest = () => this.timers.get(conversationId) === timer && this.byConversation.has(conversationId);
      this.load(conversationId, isLatest).catch((error: unknown) => this.agent.log.warn(String(error)));
    }, DEBOUNCE_MS);
    this.timers.set(conversationId, timer);
  }

  private async load(conversationId: string, isLatest: () => boolean): Promise<void> {
    const { files } = await this.agent.request("changes/list", { conversationId });
    const waiting = files.filter(({ state }) => state === "pending" || state === "conflict").slice(0, MAX_FILES);
    waiting.sort((a, b) => (a.uri < b.uri ? -1 : 1));
    const before = this.byConversation.get(conversationId) ?? [];
    const loaded = await Promise.all(waiting.map((each) => this.withHunks(conversationId, each, before)));
    if (!isLatest()) return;
    this.byConversation.set(conversationId, loaded.flat());
    this.changed.fire();
  }

  /** Empty for a file whose texts are lost: it can only be decided as a whole, in the panel. */
  private async withHunks(
    conversationId: string,
    { uri, sha256Before, sha256After }: ReviewedFile,
    before: readonly ChangedFile[],
  ): Promise<ChangedFile[]> {
    const state = `${sha256Before} ${sha256After}`;
    const same = before.find((each) => each.uri === uri && each.state === state);
    if (same) return [same];
    const diff = await this.agent.request("changes/diff", { conversationId, uri }).catch(() => undefined);
    return diff ? [{ ...diff, conversationId, uri, file: Uri.parse(uri), state }] : [];
  }
}

/** The last answer for each document: it is asked for at every move of the cursor. */
const answers = new WeakMap<TextDocument, { version: number; changed: ChangedFile; places: Place[] }>();

/** Where the changes are in a document that the user may have edited since. */
export function placesIn(document: TextDocument, changed: ChangedFile): readonly Place[] {
  const { version } = document;
  const last = answers.get(document);
  if (last?.version === version && last.changed === changed) return last.places;
  const places = findPlaces(document, changed);
  answers.set(document, { version, changed, places });
  return places;
}

function findPlaces(document: TextDocument, { newText, hunks }: ChangedFile): Place[] {
  const toNow = lineMap((newText ?? "").split("\n"), document.getText().split(/\r?\n/));
  return hunks.map((hunk) => {
    const [start, after] = [toNow(hunk.newStart), toNow(hunk.newStart + hunk.newLines)];
    // What the user has written below the change is not part of it.
    const end = hunk.newLines > 0 ? Math.min(after, toNow(hunk.newStart + hunk.newLines - 1) + 1) : start;
    return { hunk, start, end: Math.max(start, end) };
  });
}
