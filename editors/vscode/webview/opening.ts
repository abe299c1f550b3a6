/** Reads a conversation from the daemon: as it is, what its earlier turns changed, and what came before. */

import { call } from "./host";
import { Store } from "./store";

const PAGE = 200;
/** Enough to hold the end of a turn. */
const LAST_EVENTS = 20;
/** The most that one answer holds. */
const EVENTS_PAGE = 500;
/** What the cards of changed files are made from. */
const TURN_EVENTS = ["changes.updated", "turn.completed", "turn.paused", "turn.resumed", "conversation.rolledBack"];

/** Its events come as soon as it is open, so `onOpened` hears of it before all is read. */
export async function openStore(conversationId: string, onOpened: (store: Store) => void): Promise<Store> {
  const opened = await call("conversation/open", { conversationId, replay: "items", limit: PAGE });
  const store = new Store(opened);
  onOpened(store);
  const before = { conversationId, beforeSeq: store.lastSeq + 1, types: TURN_EVENTS, limit: EVENTS_PAGE };
  store.readTurns((await call("conversation/events", before)).events);
  if (["error", "paused", "running"].includes(opened.conversation.status)) await readTrouble(store);
  return store;
}

/** An event, not an item: the last one says why the conversation rests, or what its turn waits for. */
async function readTrouble(into: Store): Promise<void> {
  const { lastSeq, info: { id: conversationId, status } } = into;
  const types = ["turn.started", "turn.resumed", ...(status === "running" ? ["retry.scheduled", "item.started"] : ["error.raised"])];
  const params = { conversationId, beforeSeq: lastSeq + 1, types, limit: LAST_EVENTS };
  const last = (await call("conversation/events", params)).events.at(-1);
  // What has come meanwhile knows better.
  if (last && into.lastSeq === lastSeq) into.showTrouble(last);
}

/** One page more in front; false when there is none. */
export async function prependEarlier(store: Store): Promise<boolean> {
  const first = store.firstItem;
  if (first === undefined) return false;
  const read = await call("conversation/read", { conversationId: store.info.id, before: first, limit: PAGE });
  store.hasMore = read.nextBefore !== undefined;
  store.prepend(read.items);
  return true;
}
