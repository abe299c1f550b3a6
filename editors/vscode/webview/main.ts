/** The panel: folds the extension's messages into the store, and draws what changed, once per frame. */

import type { DaemonState, Notification, PanelMemory, Place, ToPanel } from "../src/messages";
import { type LeftOut, remembered } from "../src/proposal";
import type { Approval, ErrorInfo, InputRequest, Option, Part } from "../src/protocol";
import { type ApprovalCard, approvalCard } from "./approval";
import { Aside } from "./aside";
import { Branches } from "./branch";
import { textOf } from "./cards";
import { SlashCommands } from "./commands";
import { Composer, type Delivery } from "./composer";
import { h } from "./dom";
import { Elsewhere } from "./elsewhere";
import { Header } from "./header";
import { CallError, call, listen, remember, reportTo, run, tellAsked } from "./host";
import { ConversationList } from "./list";
import { Meter } from "./meter";
import { openStore, prependEarlier } from "./opening";
import { draftOptions, picker } from "./pickers";
import { questionCard } from "./question";
import { QueueBox } from "./queue";
import { Review } from "./review";
import {
  button,
  host,
  problem,
  remedies,
  retryNotice,
  secondsUntil,
  sendingView,
  welcome,
  withoutModel,
} from "./state";
import type { Store } from "./store";
import { ParentLine } from "./subagent";
import { Transcript } from "./transcript";

/** The error code for "there is no such conversation". */
const NOT_FOUND = -31002;
/** How many pages back a place is searched for. */
const MAX_PAGES_BACK = 10;
let daemon: DaemonState = { kind: "starting" };
let memory: PanelMemory = {};
let store: Store | undefined;
/** A conversation that is loaded but not shown yet; its events already arrive. */
let early: Store | undefined;
let nOpened = 0;
let opening: Promise<unknown> = Promise.resolve();
let draft: readonly Option[] = [];
/** The first message of a new conversation, until that is open. */
let sending: readonly Part[] | undefined;
let view: "chat" | "list" = "chat";
let failure: ErrorInfo | undefined;
let isFrameAsked = false;

const header = new Header({ back: () => show("input"), pause, resume });
const stateBox = h("div.state-box");
const elsewhere = new Elsewhere((id) => void open(id));
const parentLine = new ParentLine((id) => void open(id));
const approvalBox = h("div.approval-box");
const followBox = h(
  "div.strip",
  { role: "status", hidden: true },
  h("span", {}, "Another window works on this conversation. You follow it here."),
  h("button.secondary", { onclick: takeOver, title: "Works once the other window has closed it" }, "Take over"),
);
const fullBox = h(
  "div.strip.full",
  { role: "status", hidden: true },
  h("span", {}, "Runs without asking."),
  h("button.quiet", { onclick: () => pick("mode", "ask") }, "Ask again"),
);
const queueBox = new QueueBox();
const pickers = h("div.pickers");
const meter = new Meter(condense);
const aside = new Aside();
const commands = new SlashCommands([
  { name: "new", description: "Start another conversation", isPossible: () => true, run: () => show("new") },
  {
    name: "conversations",
    description: "Search and manage conversations",
    isPossible: () => true,
    run: () => show("list"),
  },
  {
    name: "pause",
    description: "Hold the turn after this step",
    isPossible: () => store?.info.status === "running",
    run: pause,
  },
  {
    name: "resume",
    description: "Go on with the turn",
    isPossible: () => store?.info.status === "paused",
    run: resume,
  },
  {
    name: "condense",
    description: "Replace earlier steps by a summary",
    isPossible: () => store !== undefined && !store.isReadOnly,
    run: condense,
  },
  {
    name: "export",
    description: "As Markdown, a web page or its log",
    isPossible: () => store !== undefined,
    run: () => withConversation((conversationId) => call("host/export", { conversationId })),
  },
  {
    name: "ask",
    description: "A side question, no part of the conversation",
    isPossible: () => store !== undefined,
    needsText: true,
    run: (text) => store && aside.ask(store.info.id, text),
  },
  {
    name: "mcp",
    description: "Show the MCP servers",
    isPossible: () => true,
    run: () => run("host/command", { command: "oh.mcp" }),
  },
]);
const composer = new Composer({
  send,
  stop: () => withConversation((conversationId) => call("conversation/interrupt", { conversationId })),
  draft: (change) => keep(change),
  lastMessages: () =>
    [...(store?.items.values() ?? [])].flatMap((item) => (item.kind === "userMessage" ? [textOf(item.content)] : [])),
  commands,
});
const list = new ConversationList({
  open: (id) => void open(id),
  back: () => show("input"),
  deleted: (id) => id === store?.info.id && forget(),
});
const review = new Review(draw);
const branches = new Branches({
  open,
  startNew: () => show("new"),
  returned: (content) => composer.take(content),
});
const transcript = new Transcript(review, branches, h("div.below-log", {}, list.element, aside.element, stateBox), {
  earlier: () => void loadEarlier().catch(fail),
  place: (place) => store && keep({ place: place && { ...place, conversationId: store.info.id } }),
  open: (id) => void open(id),
});

document.body.append(
  header.element,
  elsewhere.element,
  parentLine.element,
  transcript.element,
  h(
    "footer",
    {},
    approvalBox,
    followBox,
    fullBox,
    queueBox.element,
    composer.element,
    h("div.below", {}, pickers, meter.element),
  ),
);
// If the window gets the focus and no element has it, keys would go nowhere.
window.addEventListener("focus", () =>
  setTimeout(() => {
    if (document.activeElement === document.body) focusHome();
  }),
);
reportTo(fail);
listen(onMessage);

function onMessage(message: Exclude<ToPanel, { type: "answer" }>): void {
  switch (message.type) {
    case "init":
      memory = message.memory;
      composer.restore(memory);
      return onDaemon(message.daemon);
    case "daemon":
      return onDaemon(message.daemon);
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
      return approvalBox.querySelector<HTMLButtonElement>(`[data-option="${message.optionId}"]`)?.click();
  }
}

function onDaemon(state: DaemonState): void {
  daemon = state;
  if (daemon.kind === "running") {
    // Errors from an earlier daemon say nothing about this one.
    failure = undefined;
    if (memory.conversationId !== undefined) void open(memory.conversationId);
    else void loadDraft();
    elsewhere.load().then(draw).catch(fail);
  }
  draw();
}

function onNotification(notification: Notification): void {
  if (notification.method === "conversation/changed") {
    list.onChanged(notification.params);
    elsewhere.onChanged(notification.params);
  }
  if (notification.method === "daemon/statusChanged" || notification.method === "mcp/statusChanged") return;
  for (const each of new Set([store, early])) if (each) take(each, notification);
}

function take(
  into: Store,
  { method, params }: Exclude<Notification, { method: "daemon/statusChanged" | "mcp/statusChanged" }>,
): void {
  if (method === "conversation/changed") {
    if (params.conversation.id !== into.info.id) return;
    const wasReadOnly = into.isReadOnly;
    into.onChanged(params.conversation);
    // The process that held the conversation is gone, so it can be taken over.
    const { mine, pid } = params.conversation.lock;
    if (wasReadOnly && (mine || pid === undefined)) void open(into.info.id);
    return;
  }
  if (params.conversationId !== into.info.id) {
    if (method === "conversation/event") into.onOther(params);
    return;
  }
  if (method === "conversation/delta") into.onDelta(params);
  else if (method === "conversation/gap" || !into.onRecord(params)) void open(into.info.id);
}

function show(what: "new" | "list" | "input"): void {
  failure = undefined;
  if (what === "new") forget();
  view = what === "list" ? "list" : "chat";
  drawNow();
  if (what === "list") list.show();
  else toPlace();
  focusHome();
}

/** Scrolls to where the user was reading, or to the end. */
function toPlace(): void {
  const { place } = memory;
  if (place && place.conversationId === store?.info.id) transcript.showPlace(place);
  else transcript.toEnd();
}

function focusHome(): void {
  if (view === "list") list.focus();
  else composer.focus();
}

/** Takes the conversation over by opening it again, which works once no other process holds it. */
function takeOver(): void {
  if (!store) return;
  void open(store.info.id).then(() => {
    if (store?.isReadOnly) fail(new Error("The conversation is still open in the other window. Close it there first."));
    else focusHome();
  });
}

function forget(): void {
  // A conversation that is still being opened is no longer wanted either.
  nOpened++;
  early = undefined;
  aside.clear();
  store = undefined;
  keep({ conversationId: undefined });
  transcript.reset(store);
  void loadDraft();
}

async function open(conversationId: string): Promise<void> {
  const mine = ++nOpened;
  view = "chat";
  const loading = load(conversationId);
  opening = loading;
  const opened = await loading;
  // Meanwhile another conversation was opened, or this one again.
  if (mine !== nOpened) return;
  early = undefined;
  if (store?.info.id !== opened?.info.id) aside.clear();
  store = opened;
  const { place } = memory;
  // If the daemon just died, the next one can open it; only a conversation that no longer exists is forgotten.
  if (opened || failure?.code === NOT_FOUND) keep({ conversationId: opened?.info.id });
  transcript.reset(store);
  if (place && place.conversationId === opened?.info.id) await goTo(place);
  draw();
}

/** Loads earlier pages until they include the place, and scrolls there. */
async function goTo(place: Place): Promise<void> {
  const shown = store;
  for (let n = 0; n < MAX_PAGES_BACK && shown?.hasMore && !shown.items.has(place.itemId); n++) await loadEarlier();
  drawNow();
  if (shown === store) transcript.showPlace(place);
}

/** Returns undefined when the conversation cannot be opened. */
async function load(conversationId: string): Promise<Store | undefined> {
  try {
    return await openStore(conversationId, (loaded) => {
      early = loaded;
      failure = undefined;
    });
  } catch (error) {
    fail(error);
    return undefined;
  }
}

async function loadEarlier(): Promise<void> {
  const from = store;
  if (!from || !(await prependEarlier(from)) || from !== store) return;
  transcript.keepPlace(drawNow);
}

async function loadDraft(): Promise<void> {
  try {
    draft = await draftOptions(() => memory);
    draw();
  } catch (error) {
    fail(error);
  }
}

async function send(content: Part[], delivery: Delivery): Promise<void> {
  failure = undefined;
  const clientRequestId = crypto.randomUUID();
  // The message goes to the conversation that the user asked for last.
  await opening;
  if (store) {
    await call("conversation/sendMessage", { conversationId: store.info.id, content, delivery, clientRequestId });
  } else {
    await start(content, clientRequestId);
  }
  transcript.toEnd();
}

async function start(content: Part[], clientRequestId: string): Promise<void> {
  const options = Object.fromEntries(draft.map(({ id, value }) => [id, value]));
  sending = content;
  draw();
  try {
    const { conversation } = await call("conversation/start", { content, options, clientRequestId });
    await open(conversation.id);
  } finally {
    sending = undefined;
    draw();
  }
}

function pick(optionId: string, value: string): void {
  if (store) {
    void withConversation((conversationId) => call("conversation/setOption", { conversationId, optionId, value }));
    return;
  }
  keep({ options: { ...memory.options, [optionId]: value } });
  draft = draft.map((each) => (each.id === optionId ? { ...each, value } : each));
  draw();
}

function withConversation(action: (conversationId: string) => Promise<unknown>): void {
  if (store) action(store.info.id).catch(fail);
}

function fail(error: unknown): void {
  failure =
    error instanceof CallError
      ? error.info
      : { code: 0, kind: "panel", message: error instanceof Error ? error.message : String(error), retryable: false };
  draw();
}

function keep(change: { [K in keyof PanelMemory]: PanelMemory[K] | undefined }): void {
  const merged = { ...memory, ...change };
  memory = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
  remember(memory);
}

// Drawing

function draw(): void {
  if (isFrameAsked) return;
  isFrameAsked = true;
  requestAnimationFrame(drawNow);
}

function drawNow(): void {
  isFrameAsked = false;
  const isList = view === "list";
  document.body.dataset.view = view;
  document.body.dataset.busy = String(store?.isBusy ?? false);
  header.draw(store, daemon, isList);
  elsewhere.draw(store?.info.id);
  parentLine.draw(isList ? undefined : store?.info);
  transcript.draw(store);
  if (store?.needsReviews && store.canReview) {
    store.needsReviews = false;
    review.load(store).catch(fail);
  }
  drawState(isList);
  drawApproval();
  queueBox.draw(store?.info.id ?? "", [...(store?.queue.values() ?? [])]);
  composer.setBusy(store);
  followBox.hidden = !store?.isReadOnly;
  drawPickers();
  meter.draw(store?.info, store !== undefined && !store.isReadOnly);
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

let shownState = "";
let shownApproval: ApprovalCard | undefined;

function drawState(isList: boolean): void {
  const retry = store?.retry;
  const key = JSON.stringify([
    isList,
    daemon,
    failure,
    store?.error,
    retry?.at,
    retry && secondsUntil(retry.at),
    store?.info.id,
    sending !== undefined,
    draft.length > 0 && draft[0]?.id,
  ]);
  if (retry) setTimeout(draw, 250);
  if (key === shownState) return;
  shownState = key;
  stateBox.replaceChildren(...stateCards(isList));
}

function stateCards(isList: boolean): HTMLElement[] {
  if (daemon.kind === "failed") {
    const install = daemon.canInstall ? [host("Install", "oh.install", "primary")] : [];
    return [
      problem({ message: daemon.message, hint: daemon.details }, [
        ...install,
        host("Try again", "oh.restart"),
        host("Settings", "oh.settings"),
        host("Log", "oh.log"),
      ]),
    ];
  }
  const failed = failure
    ? [
        problem(failure, [
          ...remedies(failure, store ? undefined : useDemo),
          button("Dismiss", () => {
            failure = undefined;
            draw();
          }),
        ]),
      ]
    : [];
  if (isList) return failed;
  const cards: HTMLElement[] = [];
  const hasModel = draft.length === 0 || draft[0]?.id === "model";
  if (!store && sending) cards.push(...sendingView(sending));
  else if (!store && daemon.kind === "running" && !failure) cards.push(hasModel ? welcome() : withoutModel(useDemo));
  if (store?.retry) cards.push(retryNotice(store.retry));
  if (store?.error) cards.push(problem(store.error, [...remedies(store.error), button("Try again", resume)]));
  return [...cards, ...failed];
}

function useDemo(): void {
  failure = undefined;
  keep({ options: { ...memory.options, model: "demo" } });
  void loadDraft();
}

function drawApproval(): void {
  // A window that only follows cannot answer.
  const pending = store?.isReadOnly ? [] : [...(store?.pending.values() ?? [])];
  const first = pending[0];
  // An existing card stays, with what was typed into it.
  if (approvalBox.dataset.key !== (first?.id ?? "")) {
    approvalBox.dataset.key = first?.id ?? "";
    tellAsked(first?.id);
    shownApproval = undefined;
    approvalBox.replaceChildren(...(first ? [questionOf(first)] : []));
  }
  const count = approvalBox.querySelector(".count");
  if (count) count.textContent = pending.length > 1 ? `1 of ${pending.length}` : "";
}

function questionOf(asked: Approval | InputRequest): HTMLElement {
  if ("prompt" in asked) return questionCard(asked);
  shownApproval = approvalCard(asked, {
    folders: store?.info.folders ?? [],
    by: store?.askedBy(asked),
    onLeaveOut: (hunks) => leaveOut(asked.id, hunks),
  });
  shownApproval.leaveOut(memory.leftOut?.[asked.id] ?? []);
  return shownApproval.element;
}

/** Remembers the choice, as the panel may be hidden or the window reloaded before the request is answered. */
function leaveOut(approvalId: string, hunks: LeftOut): void {
  keep({ leftOut: remembered(memory.leftOut, approvalId, hunks) });
  if (approvalBox.dataset.key === approvalId) shownApproval?.leaveOut(hunks);
}

function drawPickers(): void {
  const all = store?.options ?? draft;
  const isFull = all.some(({ id, value }) => id === "mode" && value === "full");
  fullBox.hidden = !isFull || (store?.isReadOnly ?? false);
  // In this mode nothing is asked; the approval picker would say the opposite and have no effect.
  const useful = all.filter(({ id }) => !(isFull && id === "approval"));
  // Sorted, so that the pickers keep their places when a conversation starts.
  const options = useful.sort((a, b) => Number(b.id === "model") - Number(a.id === "model"));
  const key = JSON.stringify(options);
  if (pickers.dataset.key === key) return;
  pickers.dataset.key = key;
  pickers.replaceChildren(...options.map((option) => picker(option, (value) => pick(option.id, value))));
}
