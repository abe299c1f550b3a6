/** The conversations of the open folders, newest first: search, open, rename, archive, delete. */

import type { ChangedParams, ConversationInfo, ListResult } from "oh-daemon-client/protocol";
import { formatAgo, formatCost, formatCount } from "../src/words";
import { h, icon, type IconName } from "./dom";
import { call, hasEditor, report, run } from "./host";

const PAGE = 50;
const WORDS: Partial<Record<ConversationInfo["status"], string>> = {
  running: "working",
  waiting: "waits for you",
  paused: "paused",
  error: "stopped by an error",
  interrupting: "stopping",
};

/** What it does; if its daemon was killed nobody works on it, though its log does not say so. */
export function doing({ status, lock, pendingCount }: ConversationInfo): string | undefined {
  const isHeld = lock.mine || lock.pid !== undefined;
  if (isHeld || WORDS[status] === undefined || status === "error") return WORDS[status];
  return pendingCount > 0 ? WORDS.waiting : WORDS.paused;
}

export interface ListActions {
  open: (id: string) => void;
  back: () => void;
  deleted: (id: string) => void;
}

export class ConversationList {
  readonly element: HTMLElement;
  private readonly search = h("input.search", {
    type: "search",
    placeholder: "Search conversations",
    "aria-label": "Search conversations",
  });
  private readonly archived = h(
    "button.toggle",
    { "aria-pressed": "false", title: "Show what was archived" },
    "Archived",
  );
  private readonly rows = h("ul.conversations", { "aria-label": "Conversations" });
  private isArchive = false;
  private nAsked = 0;
  private searching: Promise<unknown> = Promise.resolve();
  private words: readonly string[] = [];
  /** The lines in which they were found, by the conversation's id. */
  private matches: Readonly<Record<string, string>> = {};

  constructor(private readonly actions: ListActions) {
    this.element = h("section.list", {}, h("div.list-head", {}, this.search, this.archived), this.rows);
    this.search.addEventListener("input", () => this.load());
    this.archived.addEventListener("click", () => this.toggleArchive());
    this.element.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Called when the list is shown: starts a new search. */
  show(): void {
    this.search.value = "";
    this.load();
  }

  focus(): void {
    this.search.focus();
  }

  onChanged({ conversation, change }: ChangedParams): void {
    const old = this.rowOf(conversation.id);
    const isElsewhere = change === "deleted" || conversation.archived !== this.isArchive;
    if (isElsewhere) this.remove(old);
    // A row that is being renamed or asks for confirmation stays as it is.
    else if (old && !old.querySelector("input, .confirm")) this.replace(old, conversation);
  }

  load(cursor?: string): void {
    this.loadPage(cursor).catch(report);
  }

  /** Of a search, the titles are there at once; all texts follow, for which every log may have to be read first. */
  private async loadPage(cursor: string | undefined): Promise<void> {
    const mine = ++this.nAsked;
    // An answer to an older search must not replace that of a newer one.
    const isLatest = () => mine === this.nAsked;
    const query = this.search.value.trim();
    const params = {
      limit: PAGE,
      archived: this.isArchive,
      ...(query !== "" && { query }),
      ...(cursor !== undefined && { cursor }),
    };
    if (query === "" || cursor === undefined) {
      const page = await call("conversation/list", params);
      if (isLatest()) this.fill(page, cursor !== undefined, query !== "");
    }
    if (query === "") return;
    // One at a time: each letter that is typed asks for a search.
    await this.searching.catch(() => undefined);
    if (!isLatest()) return;
    const searching = call("conversation/list", { ...params, texts: true });
    this.searching = searching;
    const page = await searching;
    if (isLatest()) this.fill(page, cursor !== undefined, false);
  }

  private fill({ conversations, matches, nextCursor }: ListResult, isMore: boolean, isSearching: boolean): void {
    const focused = this.items.find((each) => each.contains(document.activeElement))?.dataset.id;
    this.words = this.search.value.trim().split(/\s+/u);
    this.matches = { ...(isMore && this.matches), ...matches };
    if (!isMore) this.rows.replaceChildren();
    this.rows.querySelector(".more")?.remove();
    this.rows.append(...conversations.map((info) => this.row(info)));
    if (isSearching) this.rows.append(h("li.more.none", { role: "status" }, "Searching all text…"));
    else if (nextCursor !== undefined)
      this.rows.append(h("li.more", {}, h("button.quiet", { onclick: () => this.load(nextCursor) }, "Show more")));
    this.sayIfEmpty();
    if (focused !== undefined) (this.rowOf(focused)?.querySelector("button") ?? this.search).focus();
  }

  private sayIfEmpty(): void {
    if (this.rows.childElementCount > 0) return;
    const words =
      this.search.value.trim() !== ""
        ? "Nothing found."
        : this.isArchive
          ? "Nothing is archived."
          : "No conversations yet.";
    this.rows.append(h("li.none", {}, words));
  }

  private toggleArchive(): void {
    this.isArchive = !this.isArchive;
    this.archived.setAttribute("aria-pressed", String(this.isArchive));
    this.load();
  }

  private row(info: ConversationInfo): HTMLElement {
    const title = info.title || "Untitled";
    const match = this.matches[info.id];
    const files = info.fileCount && formatCount(info.fileCount, "file");
    const details = [doing(info), formatAgo(info.updatedAt), info.modelLabel, files, formatCost(info.usage)]
      .filter(Boolean)
      .join(" · ");
    const action = (name: IconName, label: string, onclick: () => void) =>
      h("button.quiet", { title: label, "aria-label": `${label}: ${title}`, onclick }, icon(name));
    const item: HTMLElement = h(
      "li.conversation",
      { "data-id": info.id, "data-status": info.status },
      h(
        "button.row",
        { title, onclick: () => this.actions.open(info.id) },
        h("span.row-title", {}, h("span.dot", { "aria-hidden": "true" }), title),
        match !== undefined && h("span.row-match", {}, ...marked(match, this.words)),
        h("span.row-meta", {}, details),
      ),
      h(
        "span.row-actions",
        {},
        action("pencil", "Rename", () => this.rename(item, info)),
        action("box", info.archived ? "Unarchive" : "Archive", () => this.archive(item, info)),
        hasEditor && action("editor", "Open in an Editor", () => run("host/openInEditor", { conversationId: info.id })),
        action("share", "Export", () => run("host/export", { conversationId: info.id })),
        action("trash", "Delete", () => this.confirmDelete(item, info)),
      ),
    );
    return item;
  }

  private rename(item: HTMLElement, info: ConversationInfo): void {
    const field = h("input.rename", { "aria-label": "New title", value: info.title });
    let isOver = false;
    const end = (wanted: string) => {
      // Removing the field blurs it, which would end the edit again.
      if (isOver) return;
      isOver = true;
      const title = wanted.trim();
      this.replace(item, { ...info, ...(title !== "" && { title }) }, field.matches(":focus"));
      if (title === "" || title === info.title) return;
      call("conversation/update", { conversationId: info.id, title }).catch(report);
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
      event.stopPropagation();
      // Otherwise the key would also press the row that gets the focus now.
      event.preventDefault();
      end(event.key === "Enter" ? field.value : "");
    });
    field.addEventListener("blur", () => end(field.value));
    item.replaceChildren(field);
    field.select();
    field.focus();
  }

  private archive(item: HTMLElement, { id, archived }: ConversationInfo): void {
    call("conversation/update", { conversationId: id, archived: !archived })
      .then(() => this.remove(item))
      .catch(report);
  }

  private confirmDelete(item: HTMLElement, info: ConversationInfo): void {
    const cancel = h("button.secondary", { onclick: () => this.replace(item, info, true) }, "Keep");
    item.replaceChildren(
      h(
        "div.confirm",
        { role: "group", "aria-label": "Delete this conversation?" },
        h("span", {}, "Delete “", h("b", {}, info.title || "Untitled"), "” with its history?"),
        h("div.actions", {}, h("button.primary", { onclick: () => this.delete(item, info) }, "Delete"), cancel),
      ),
    );
    cancel.focus();
  }

  private delete(item: HTMLElement, info: ConversationInfo): void {
    const restore = (error: unknown) => {
      this.replace(item, info, true);
      report(error);
    };
    call("conversation/delete", { conversationId: info.id }).then(() => {
      this.remove(this.rowOf(info.id));
      this.actions.deleted(info.id);
    }, restore);
  }

  /** Replaces a row. The keyboard focus stays on its button; `isFocused` moves it to the first one. */
  private replace(old: HTMLElement, info: ConversationInfo, isFocused = false): void {
    const made = this.row(info);
    const at = isFocused ? 0 : [...old.querySelectorAll("button")].findIndex((each) => each.matches(":focus"));
    old.replaceWith(made);
    made.querySelectorAll("button")[at]?.focus();
  }

  /** Removes a row; the keyboard focus moves to its neighbour. */
  private remove(item: HTMLElement | undefined): void {
    if (!item) return;
    const next = item.nextElementSibling ?? item.previousElementSibling;
    const isFocused = item.contains(document.activeElement);
    item.remove();
    this.sayIfEmpty();
    if (isFocused) (next?.querySelector<HTMLElement>("button") ?? this.search).focus();
  }

  private rowOf(id: string): HTMLElement | undefined {
    return this.items.find((each) => each.dataset.id === id);
  }

  private get items(): HTMLElement[] {
    return [...this.rows.querySelectorAll<HTMLElement>(".conversation")];
  }

  /** Handles Up and Down between rows, and F2 and Delete as in every list of the editor. */
  private onKey(event: KeyboardEvent): void {
    if (event.isComposing || !(event.target instanceof HTMLElement)) return;
    const { target, key } = event;
    const at = this.items.findIndex((each) => each.contains(target));
    if (key === "Escape" && !target.closest(".confirm")) this.actions.back();
    else if (key === "Escape") target.closest(".confirm")?.querySelector<HTMLElement>(".secondary")?.click();
    else if (key === "ArrowDown" || key === "ArrowUp") this.focusRow(at + (key === "ArrowDown" ? 1 : -1));
    else if (target.matches(".row") && key === "F2") this.press(at, 0);
    else if (target.matches(".row") && key === "Delete") this.press(at, -1);
    else return;
    event.preventDefault();
  }

  private focusRow(at: number): void {
    if (at < 0) this.search.focus();
    else this.items[at]?.querySelector<HTMLElement>(".row")?.focus();
  }

  private press(at: number, action: number): void {
    const buttons = this.items[at]?.querySelectorAll<HTMLElement>(".row-actions button") ?? [];
    [...buttons].at(action)?.click();
  }
}

/** The line, with every word in it marked. */
function marked(line: string, words: readonly string[]): (Node | string)[] {
  const anyWord = words.map((word) => word.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&")).join("|");
  const parts = line.split(new RegExp(`(${anyWord})`, "iu"));
  return parts.map((part, n) => (n % 2 === 1 ? h("mark", {}, part) : part));
}
