/** Stands in for VS Code: the panel's messages go to a daemon behind a WebSocket. There is no editor here. */

import type { DaemonState, FromPanel, HostRequests, PanelMemory, ToPanel } from "../src/messages";
import { errorInfo, Relay } from "../src/relay";
import { type DaemonClient, DaemonError, type Hello } from "oh-daemon-client/connection";
import type { OpenResult, Requests } from "oh-daemon-client/protocol";
import { connectTo } from "./connection";

type Show = Extract<ToPanel, { type: "show" }>["what"];
type Handlers = { [M in keyof HostRequests]?: (params: HostRequests[M][0]) => Promise<HostRequests[M][1]> };

const MEMORY = "oh.page";
/** As in `webview/sending.ts`: the connection ended before the answer came. */
const UNANSWERED = -32097;
/** How long to wait before each further try to connect; after the last one, the user decides. */
const WAITS_MS = [0, 500, 1000, 2000, 4000, 8000];
const LOST = {
  kind: "failed",
  message: "The daemon cannot be reached.",
  details: "If it was started anew, open the link that it printed then.",
} as const;
/** The answers that have keys of their own in an editor, and thus here. */
const PRESSED: Record<string, string> = { Enter: "allow-once", Backspace: "reject" };
const HANDLERS: Handlers = {
  "host/copy": ({ text }) => navigator.clipboard.writeText(text),
  // No editor shows the diff of a proposal, so there is none to keep up to date.
  "host/changeProposal": async () => {},
  "host/existing": async () => ({ existing: [] }),
  "host/mentions": async () => ({ suggestions: [] }),
  "host/command": async ({ command }) => {
    if (command === "oh.restart") connect();
  },
  "host/export": async ({ conversationId }) => {
    const { text } = await request("conversation/export", { conversationId, format: "markdown" });
    const href = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
    const link = Object.assign(document.createElement("a"), { href, download: `conversation-${conversationId}.md` });
    link.click();
    URL.revokeObjectURL(href);
  },
};

let client: DaemonClient | undefined;
let daemon: DaemonState = { kind: "starting" };
let onSettled = () => {};
/** Settles when the daemon runs, or cannot be reached. */
let settled = settling();
let nFailures = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
const relay = new Relay((batch) => post({ type: "notifications", batch }));

Object.assign(globalThis, { acquireVsCodeApi: () => ({ postMessage: receive, hasEditor: false }) });
// Only this module speaks to the panel: what another window posts is a trusted event, ours are not.
window.addEventListener("message", (event) => event.isTrusted && event.stopImmediatePropagation(), { capture: true });
document.addEventListener("click", openElsewhere);
document.addEventListener("keydown", ({ key, altKey, ctrlKey, metaKey }) => {
  const optionId = PRESSED[key];
  if (altKey && (ctrlKey || metaKey) && optionId !== undefined) post({ type: "press", optionId });
});
// A phone that sleeps drops its connections, and has no patience when it wakes up.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && daemon.kind !== "running") connect();
});

/** Shows the list, a new conversation, or the one that was open. */
export function show(what: Show): void {
  post({ type: "show", what });
}

function post(data: ToPanel): void {
  window.dispatchEvent(new MessageEvent("message", { data }));
}

function receive(message: FromPanel): void {
  if (message.type === "memory") sessionStorage.setItem(MEMORY, JSON.stringify(message.memory));
  if (message.type === "ready") begin();
  if (message.type !== "call") return;
  const { id, method, params } = message;
  answer(method, params).then(
    (result) => post({ type: "answer", id, result }),
    (error: unknown) => post({ type: "answer", id, error: errorInfo(error) }),
  );
}

/** After the panel's own start, since it takes no messages while it makes itself. */
function begin(): void {
  const memory = JSON.parse(sessionStorage.getItem(MEMORY) ?? "{}") as PanelMemory;
  setTimeout(() => {
    post({ type: "init", memory, daemon });
    if (memory.conversationId === undefined) show("list");
    connect();
  });
}

/** Data enters here: the panel is our own code, and `Calls` types its requests where they are made. */
async function answer(method: string, params: unknown): Promise<unknown> {
  if (method.startsWith("host/")) {
    const handler = HANDLERS[method as keyof Handlers] as ((params: unknown) => Promise<unknown>) | undefined;
    if (!handler) throw new Error("Only an editor can do that.");
    return handler(params);
  }
  const result = await request(method as keyof Requests, params as Requests[keyof Requests][0]);
  relay.flush();
  return method === "conversation/open" ? relay.withLiveText(result as OpenResult) : result;
}

async function request<M extends keyof Requests>(method: M, params: Requests[M][0]): Promise<Requests[M][1]> {
  await settled;
  if (!client || daemon.kind !== "running") throw new Error("The daemon is not connected.");
  return client.request(method, params).catch((error: unknown) => {
    if (error instanceof DaemonError) throw error;
    throw new DaemonError("The connection to the daemon ended before it answered.", UNANSWERED);
  });
}

function connect(): void {
  clearTimeout(timer);
  if (client) return;
  enter({ kind: "starting" });
  const address = new URL("socket", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  client = connectTo(address, (notification) => relay.take(notification, true));
  void client.closed.then(onClosed);
  const hello: Hello = {
    folders: JSON.parse(document.body.dataset.folders ?? "[]") as readonly string[],
    protocolVersion: { major: 1, minor: 0 },
    client: { name: "page", kind: "panel" },
    features: { approvalRequests: true, inputRequests: true },
  };
  client.initialize(hello).then(
    () => {
      nFailures = 0;
      enter({ kind: "running", isRestricted: false });
    },
    () => client?.close(),
  );
}

function onClosed(): void {
  client = undefined;
  relay.forget();
  const wait = WAITS_MS[nFailures++];
  if (wait === undefined) {
    nFailures = 0;
    enter(LOST);
    return;
  }
  enter({ kind: "starting" });
  timer = setTimeout(connect, wait);
}

function settling(): Promise<void> {
  return new Promise((resolve) => {
    onSettled = resolve;
  });
}

function enter(state: DaemonState): void {
  if (state.kind === "starting" && daemon.kind !== "starting") settled = settling();
  daemon = state;
  if (daemon.kind !== "starting") onSettled();
  post({ type: "daemon", daemon });
}

/** A link leads to a page of somebody else, which learns nothing of this one. */
function openElsewhere(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[href]") : null;
  if (link?.download !== "") return;
  event.preventDefault();
  window.open(link.href, "_blank", "noopener,noreferrer");
}
