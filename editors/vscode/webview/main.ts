/** The panel: folds the extension's messages into the current.store, and draws what changed, once per frame. */

import type { DaemonState, Looking, Place, ToPanel } from "../src/messages";
import type { Notification } from "oh-daemon-client/store";
import type { ErrorInfo, Part } from "oh-daemon-client/protocol";
import { Aside } from "./aside";
import { AskedBox } from "./asked";
import { Attempts } from "./attempts";
import { Branches } from "./branch";
import { textOf } from "./cards";
import { SlashCommands } from "./commands";
import { Composer, type Delivery } from "./composer";
import { Current } from "./current";
import { showPathsFrom } from "./diff";
import { h, replace } from "./dom";
import { Elsewhere } from "./elsewhere";
import { Header } from "./header";
import { CallError, call, hasEditor, listen, report, reportTo, run, tellTitle } from "./host";
import { ConversationList } from "./list";
import { Memory } from "./memory";
import { Meter } from "./meter";
import { prependEarlier } from "oh-daemon-client/opening";
import { Pickers } from "./pickers";
import { PlanBox } from "./plan";
import { PortsBox } from "./ports";
import { QueueBox } from "./queue";
import { Review } from "./review";
import { Sending } from "./sending";
import { StateBox } from "./state";
import { ParentLine } from "./subagent";
import { Transcript } from "./transcript";
import { Welcome } from "./welcome";

/** The error code for "there is no such conversation". */
const NOT_FOUND = -31002;
/** How many pages back a place is searched for. */
const MAX_PAGES_BACK = 10;
let daemon: DaemonState = { kind: "starting" };
let view: "chat" | "list" = "chat";
let failure: ErrorInfo | undefined;
/** Whether the conversation that the next message starts is isolated. */
let startsIsolated = false;
let isFrameAsked = false;
let toldTitle: string | undefined;
let onStarted = () => {};
/** Settles when the daemon runs, and opens the conversation again, or when it has failed. */
let started = starting();

const memory = new Memory();
const sending = new Sending(draw, settled);
const current = new Current((conversationId) => void reopen(conversationId));
const header = new Header({ back: () => show("input"), pause, resume });
const welcome = new Welcome({
  send: (content) => void send(content, "auto").catch(fail),
  open: (id) => void open(id),
});
const stateBox = new StateBox(welcome, { redraw: draw, resume, useDemo, addServer, dismiss });
const elsewhere = new Elsewhere((id) => void open(id));
const parentLine = new ParentLine((id) => void open(id));
const askedBox = new AskedBox(memory);
const followBox = h(
  "div.strip",
  { role: "status", hidden: true },
  h("span", {}, "Another window works on this conversation. You follow it here."),
  h("button.secondary", { onclick: takeOver, title: "Works once the other window has closed it" }, "Take over"),
);
const restrictedBox = h(
  "div.strip.full",
  { role: "status", hidden: true },
  h("span", {}, "Restricted window: the agent can only read."),
  h("button.quiet", { onclick: () => run("host/command", { command: "workbench.trust.manage" }) }, "Trust this folder"),
);
const planBox = new PlanBox(memory);
const portsBox = new PortsBox();
const queueBox = new QueueBox();
const isolatedBox = h("div.isolated-box", {});
const attempts = new Attempts((id) => void open(id), draw);
const pickers = new Pickers(memory, draw);
const meter = new Meter(condense);
const aside = new Aside();
const commands = new SlashCommands([
  { name: "new", description: "Start another conversation", isPossible: () => true, run: () => show("new") },
  {
    name: "isolated",
    description: "Start one that changes nothing here until you apply it",
    isPossible: () => true,
    run: () => show("newIsolated"),
  },
  {
    name: "conversations",
    description: "Search and manage conversations",
    isPossible: () => true,
    run: () => show("list"),
  },
  {
    name: "pause",
    description: "Hold the turn after this step",
    isPossible: () => current.store?.info.status === "running",
    run: pause,
  },
  {
    name: "resume",
    description: "Go on with the turn",
    isPossible: () => current.store?.info.status === "paused",
    run: resume,
  },
  {
    name: "condense",
    description: "Replace earlier steps by a summary",
    isPossible: () => current.store !== undefined && !current.store.isReadOnly,
    run: condense,
  },
  {
    name: "export",
    description: "As Markdown, a web page or its log",
    isPossible: () => current.store !== undefined,
    run: () => withConversation((conversationId) => call("host/export", { conversationId })),
  },
  {
    name: "ask",
    description: "A side question, no part of the conversation",
    isPossible: () => current.store !== undefined,
    needsText: true,
    run: (text) => current.store && aside.ask(current.store.info.id, text),
  },
  {
    name: "ways",
    description: "Try a task several ways, each in isolation, and apply one",
    isPossible: () => hasEditor,
    needsText: true,
    run: (task) => run("host/startAttempts", { task }),
  },
  {
    name: "mcp",
    description: "Show the MCP servers",
    isPossible: () => hasEditor,
    run: () => run("host/command", { command: "oh.mcp" }),
  },
]);
const composer = new Composer({
  send,
  stop: () => withConversation((conversationId) => call("conversation/interrupt", { conversationId })),
  draft: (change) => memory.keep(change),
  lastMessages: () =>
    [...(current.store?.items.values() ?? [])].flatMap((item) =>
      item.kind === "userMessage" ? [textOf(item.content)] : [],
    ),
  commands,
});
const list = new ConversationList({
  open: (id) => void open(id),
  back: () => show("input"),
  deleted: (id) => id === current.store?.info.id && forget(),
});
const review = new Review(draw);
const branches = new Branches({
  open,
  startNew: () => show("new"),
  returned: (content) => composer.take(content),
});
const transcript = new Transcript(
  review,
  branches,
  memory,
  h("div.below-log", {}, list.element, aside.element, stateBox.element),
  {
    earlier: () => void loadEarlier().catch(fail),
    place: (place) =>
      current.store && memory.keep({ place: place && { ...place, conversationId: current.store.info.id } }),
    open: (id) => void open(id),
  },
);

document.body.append(
  header.element,
  elsewhere.element,
  parentLine.element,
  transcript.element,
  h(
    "footer",
    {},
    planBox.element,
    askedBox.element,
    followBox,
    portsBox.element,
    restrictedBox,
    pickers.warning,
    attempts.element,
    isolatedBox,
    queueBox.element,
    h("div.desk", {}, composer.element, h("div.below", {}, pickers.element, meter.element)),
  ),
);
// If the window gets the focus and no element has it, keys would go nowhere.
window.addEventListener("focus", () =>
  setTimeout(() => {
    if (document.activeElement === document.body) focusHome();
  }),
);
// The same goes for keys after a control that had the focus is gone, such as an approval that was answered.
document.addEventListener("focusout", ({ target, relatedTarget }) => {
  if (relatedTarget !== null || !(target instanceof HTMLElement)) return;
  setTimeout(() => {
    const isNowhere = document.hasFocus() && document.activeElement === document.body;
    if (isNowhere && (target.matches(":disabled") || target.getClientRects().length === 0)) focusHome();
  });
});
reportTo(fail);
listen(onMessage);

function onMessage(message: Exclude<ToPanel, { type: "answer" }>): void {
  switch (message.type) {
    case "init":
      memory.begin(message.memory);
      composer.restore(memory.now);
      onLooking(message.looking);
      return onDaemon(message.daemon);
    case "daemon":
      return onDaemon(message.daemon);
    case "looking":
      return onLooking(message.looking);
    case "notifications":
      for (const notification of message.batch) onNotification(notification);
      return draw();
    case "attach":
      return composer.attach(message.part);
    case "show":
      return show(message.what);
    case "open":
      return void open(message.conversationId);
    case "press":
      return void askedBox.press(message.optionId);
  }
}

function starting(): Promise<void> {
  return new Promise((resolve) => {
    onStarted = resolve;
  });
}

function onDaemon(state: DaemonState): void {
  if (state.kind === "starting" && daemon.kind !== "starting") started = starting();
  daemon = state;
  if (daemon.kind === "running") {
    // Errors from an earlier daemon say nothing about this one.
    failure = undefined;
    if (memory.now.conversationId !== undefined) void reopen(memory.now.conversationId);
    else pickers.load().catch(report);
    // What it asked an earlier daemon may never have been answered.
    if (view === "list") list.load();
    elsewhere.load().then(draw).catch(report);
  }
  if (daemon.kind !== "starting") onStarted();
  draw();
}

function onLooking(looking: Looking | undefined): void {
  welcome.draw(looking);
  composer.setLooking(looking);
}

function onNotification(notification: Notification): void {
  if (notification.method === "conversation/changed") {
    list.onChanged(notification.params);
    elsewhere.onChanged(notification.params);
  }
  attempts.onNotification(notification);
  if (notification.method === "port/changed") portsBox.onChanged(notification.params);
  current.take(notification);
}

function show(what: "new" | "newIsolated" | "list" | "input"): void {
  failure = undefined;
  if (what === "new" || what === "newIsolated") {
    startsIsolated = what === "newIsolated";
    forget();
  }
  view = what === "list" ? "list" : "chat";
  drawNow();
  if (what === "list") list.show();
  else toPlace();
  focusHome();
}

/** Scrolls to where the user was reading, or to the end. */
function toPlace(): void {
  const { place } = memory.now;
  if (place && place.conversationId === current.store?.info.id) transcript.showPlace(place);
  else transcript.toEnd();
}

function focusHome(): void {
  // The keyboard of a touch screen would cover what was asked for.
  if (matchMedia("(pointer: coarse)").matches) return;
  if (view === "list") list.focus();
  else composer.focus();
}

/** Takes the conversation over by opening it again, which works once no other process holds it. */
function takeOver(): void {
  const { store } = current;
  if (!store) return;
  void open(store.info.id).then(() => {
    if (current.store?.isReadOnly)
      fail(new Error("The conversation is still open in the other window. Close it there first."));
    else focusHome();
  });
}

function forget(): void {
  current.forget();
  aside.clear();
  memory.keep({ conversationId: undefined });
  transcript.reset(undefined);
  pickers.load().catch(report);
}

function open(conversationId: string): Promise<void> {
  view = "chat";
  sending.forget();
  return reopen(conversationId);
}

/** Opens it for a daemon that is new, or to catch up; a user who looks at the list stays there. */
async function reopen(conversationId: string): Promise<void> {
  const opened = await current.open(conversationId, () => {
    failure = undefined;
  });
  if (!opened) return;
  const { store } = current;
  const { place } = memory.now;
  if (opened.formerId !== store?.info.id) aside.clear();
  // If the daemon just died, the next one can open it; only a conversation that no longer exists is forgotten.
  const isGone = opened.error instanceof CallError && opened.error.info.code === NOT_FOUND;
  if (store || isGone) memory.keep({ conversationId: store?.info.id });
  if (opened.error !== undefined) fail(opened.error);
  transcript.reset(store);
  if (store && !store.isReadOnly) portsBox.load(store.info.id).then(draw).catch(report);
  if (place && place.conversationId === store?.info.id) await goTo(place);
  draw();
}

/** Loads earlier pages until they include the place, and scrolls there. */
async function goTo(place: Place): Promise<void> {
  const shown = current.store;
  for (let n = 0; n < MAX_PAGES_BACK && shown?.hasMore && !shown.items.has(place.itemId); n++) await loadEarlier();
  drawNow();
  if (shown === current.store) transcript.showPlace(place);
}

async function loadEarlier(): Promise<void> {
  const from = current.store;
  if (!from || !(await prependEarlier(call, from)) || from !== current.store) return;
  transcript.keepPlace(drawNow);
}

async function send(content: Part[], delivery: Delivery): Promise<void> {
  failure = undefined;
  const clientRequestId = crypto.randomUUID();
  // The message goes to the conversation that the user asked for last, which a daemon that starts must open first.
  await settled();
  const { store } = current;
  if (store) {
    const params = { conversationId: store.info.id, content, delivery, clientRequestId };
    const isThere = () => store === current.store;
    await sending.showIfSlow(content, isThere, sending.call("conversation/sendMessage", params));
  } else {
    await start(content, clientRequestId);
  }
  transcript.toEnd();
}

async function settled(): Promise<void> {
  await started;
  await current.settled;
}

async function start(content: Part[], clientRequestId: string): Promise<void> {
  sending.show(content);
  try {
    const params = { content, options: pickers.chosen, clientRequestId, ...(startsIsolated && { isolated: true }) };
    const { conversation } = await sending.call("conversation/start", params);
    startsIsolated = false;
    // The user may have gone to another conversation, or to the list.
    if (sending.shown === content) await reopen(conversation.id);
  } finally {
    sending.end(content);
  }
}

function withConversation(action: (conversationId: string) => Promise<unknown>): void {
  const { store } = current;
  if (store) action(store.info.id).catch(fail);
}

function fail(error: unknown): void {
  failure =
    error instanceof CallError
      ? error.info
      : { code: 0, kind: "panel", message: error instanceof Error ? error.message : String(error), retryable: false };
  draw();
}

// Drawing

function draw(): void {
  if (isFrameAsked) return;
  isFrameAsked = true;
  requestAnimationFrame(drawNow);
}

function drawNow(): void {
  isFrameAsked = false;
  const { store } = current;
  const isList = view === "list";
  document.body.dataset.view = view;
  document.body.dataset.busy = String(store?.isBusy ?? false);
  if (store) showPathsFrom(store.info.folders);
  header.draw(store, daemon, isList, startsIsolated);
  // While a conversation is being opened, the tab keeps the title that it had.
  const title = store?.info.title ?? (memory.now.conversationId === undefined ? "" : toldTitle);
  if (title !== undefined && title !== toldTitle) tellTitle(title);
  toldTitle = title;
  elsewhere.draw(store?.info.id);
  parentLine.draw(isList ? undefined : store?.info);
  transcript.draw(store);
  if (store?.needsReviews && store.canReview) {
    store.needsReviews = false;
    review.load(store).catch(fail);
  }
  const isRestricted = daemon.kind === "running" && daemon.isRestricted;
  restrictedBox.hidden = !isRestricted;
  stateBox.draw({ daemon, failure, store, sending: sending.shown, hasModel: pickers.hasModel, isList });
  planBox.draw(store?.plan);
  askedBox.draw(store);
  portsBox.draw(isList ? undefined : store?.info.id);
  attempts.draw(isList ? undefined : store?.info);
  isolatedBox.hidden = isList || !store?.info.isolated;
  const shown = store ? `${store.info.id} ${store.canReview} ${review.version}` : "";
  // Drawn anew only for a reason, so that no click gets lost.
  if (isolatedBox.dataset.shown !== shown) drawIsolated(review.isolated(store));
  isolatedBox.dataset.shown = shown;
  queueBox.draw(store?.info.id ?? "", [...(store?.queue.values() ?? [])]);
  composer.setBusy(store);
  followBox.hidden = !store?.isReadOnly;
  pickers.draw(store, isRestricted);
  meter.draw(store?.info, store !== undefined && !store.isReadOnly);
}

function drawIsolated(card: HTMLElement | undefined): void {
  const old = isolatedBox.firstElementChild;
  if (old && card) replace(old, card);
  else isolatedBox.replaceChildren(...(card ? [card] : []));
}

function pause(): void {
  withConversation((conversationId) => call("conversation/pause", { conversationId }));
}

function condense(): void {
  withConversation((conversationId) => call("conversation/condense", { conversationId }));
}

function resume(): void {
  failure = undefined;
  withConversation((conversationId) => call("conversation/resume", { conversationId }));
}

function dismiss(): void {
  failure = undefined;
  draw();
}

function addServer(address?: string): void {
  failure = undefined;
  pickers.addServer(address);
}

function useDemo(): void {
  failure = undefined;
  memory.keep({ options: { ...memory.now.options, model: "demo" } });
  pickers.load().catch(report);
}
