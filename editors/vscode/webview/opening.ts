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
  if (["error", "paused"].includes(opened.conversation.status)) await readError(store);
  return store;
}

/** The error is an event, not an item; after a reload the last one says why the conversation rests. */
async function readError(into: Store): Promise<void> {
  const types = ["error.raised", "turn.started"];
  const params = { conversationId: into.info.id, beforeSeq: into.lastSeq + 1, types, limit: LAST_EVENTS };
  const { events } = await call("conversation/events", params);
  const event = events.at(-1)?.event;
  if (event?.type === "error.raised") into.error = event.error;
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
