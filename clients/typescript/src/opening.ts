/** Reads a conversation from the daemon: its current state, what its turns changed, and earlier pages. */

import type { Requests } from "./protocol.js";
import { Store } from "./store.js";

export type Request = <M extends keyof Requests>(method: M, params: Requests[M][0]) => Promise<Requests[M][1]>;

const PAGE = 200;
/** Enough events to include the end of a turn. */
const LAST_EVENTS = 20;
/** The most events in one answer. */
const EVENTS_PAGE = 500;
/** The events from which the cards of changed files are made. */
const TURN_EVENTS = ["changes.updated", "turn.completed", "turn.paused", "turn.resumed", "conversation.rolledBack"];

/** Reads a conversation. Its events arrive as soon as it is open, so `onOpened` is called before all is read. */
export async function openStore(
  call: Request,
  conversationId: string,
  onOpened: (store: Store) => void,
): Promise<Store> {
  const opened = await call("conversation/open", { conversationId, replay: "items", limit: PAGE });
  const store = new Store(opened);
  onOpened(store);
  const before = { conversationId, beforeSeq: store.lastSeq + 1, types: TURN_EVENTS, limit: EVENTS_PAGE };
  store.readTurns((await call("conversation/events", before)).events);
  if (["error", "paused", "running"].includes(opened.conversation.status)) await readTrouble(call, store);
  return store;
}

/** Reads the last error or retry, which is an event, not an item: why the conversation rests, or its turn waits. */
async function readTrouble(call: Request, into: Store): Promise<void> {
  const {
    lastSeq,
    info: { id: conversationId, status },
  } = into;
  const types = [
    "turn.started",
    "turn.resumed",
    ...(status === "running" ? ["retry.scheduled", "item.started"] : ["error.raised"]),
  ];
  const params = { conversationId, beforeSeq: lastSeq + 1, types, limit: LAST_EVENTS };
  const last = (await call("conversation/events", params)).events.at(-1);
  // Events that arrived meanwhile are newer.
  if (last && into.lastSeq === lastSeq) into.showTrouble(last);
}

/** Prepends one more page. Returns false when there is none. */
export async function prependEarlier(call: Request, store: Store): Promise<boolean> {
  const first = store.firstItem;
  if (first === undefined) return false;
  const read = await call("conversation/read", { conversationId: store.info.id, before: first, limit: PAGE });
  store.hasMore = read.nextBefore !== undefined;
  store.prepend(read.items);
  return true;
}
