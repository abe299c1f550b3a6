/** The conversations of the open folders, newest first, with a search. */

import type { ConversationInfo } from "../src/protocol";
import { h } from "./dom";
import { call } from "./host";

const WORDS: Partial<Record<ConversationInfo["status"], string>> = {
  running: "working", waiting: "waits for you", paused: "paused", error: "stopped by an error", interrupting: "stopping",
};

export function conversationList(onOpen: (id: string) => void, onError: (error: unknown) => void): HTMLElement {
  const rows = h("ul.rows");
  const search = h("input.search", { type: "search", placeholder: "Search conversations", "aria-label": "Search conversations" });
  let asked = 0;
  const load = async (cursor?: string) => {
    const mine = ++asked;
    const query = search.value.trim();
    const page = await call("conversation/list", { limit: 50, ...(query !== "" && { query }), ...(cursor !== undefined && { cursor }) });
    // An answer to an older search must not replace that of a newer one.
    if (mine !== asked) return;
    if (cursor === undefined) rows.replaceChildren();
    rows.append(...page.conversations.map((info) => row(info, onOpen)));
    if (rows.childElementCount === 0) rows.append(h("li.none", {}, query === "" ? "No conversations yet." : "Nothing found."));
    const { nextCursor } = page;
    if (nextCursor === undefined) return;
    const more = h("button.quiet", { onclick: () => {
      item.remove();
      load(nextCursor).catch(onError);
    } }, "Show more");
    const item = h("li", {}, more);
    rows.append(item);
  };
  search.addEventListener("input", () => void load().catch(onError));
  load().catch(onError);
  return h("section.list", { "aria-label": "Conversations" }, search, rows);
}

function row(info: ConversationInfo, onOpen: (id: string) => void): HTMLElement {
  const details = [WORDS[info.status], ago(info.updatedAt), formatCost(info)].filter(Boolean).join(" · ");
  return h("li", {},
    h("button.row", { onclick: () => onOpen(info.id) },
      h("span.row-title", {}, info.title || "Untitled"), h("span.row-meta", {}, details)));
}

function ago(time: string): string {
  const minutes = Math.floor((Date.now() - Date.parse(time)) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return new Date(time).toLocaleDateString();
}

export function formatCost({ usage }: ConversationInfo): string {
  if (!usage?.cost || usage.cost.amount === 0) return "";
  return `$${usage.cost.amount.toFixed(usage.cost.amount < 1 ? 3 : 2)}`;
}
