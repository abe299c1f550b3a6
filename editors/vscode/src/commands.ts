/** The extension's commands, by their names in the manifest. */

import { commands, type Disposable, env, type Memento, type Uri, window } from "vscode";
import type { Agent } from "./agent";
import type { Approvals } from "./approvals";
import { startAttempts } from "./attempts";
import type { Changes } from "./changes";
import { restoreCheckpoint } from "./checkpoints";
import type { CommitMessages } from "./commitmessage";
import { type EditorContext, fileLink } from "./context";
import type { DiffTitle } from "./difftitle";
import { exportConversation } from "./export";
import { type Failing, fixTest } from "./failingtest";
import type { Inline } from "./inline";
import type { InlineEdits } from "./inlineedit";
import type { LensArguments } from "./inlinelook";
import { showMcpServers } from "./mcp";
import { terminalText } from "./mentions";
import type { Panel } from "./panel";
import type { ProposedEdits } from "./proposededits";
import type { Part } from "oh-daemon-client/protocol";

const SETTINGS = "@ext:oh-daemon.oh-daemon";
const WALKTHROUGH = "oh-daemon.oh-daemon#start";

export interface Parts {
  agent: Agent;
  panel: Panel;
  approvals: Approvals;
  proposedEdits: ProposedEdits;
  diffTitle: DiffTitle;
  changes: Changes;
  inline: Inline;
  edits: InlineEdits;
  commitMessages: CommitMessages;
  editors: EditorContext;
  memory: Memento;
  askForKey: () => Promise<void>;
  askForSecret: () => Promise<void>;
}

type Clicked = Parameters<Approvals["answer"]>[1];
type Settled = Parameters<Inline["settle"]> extends [unknown, ...infer Of] ? Of : never;

export function registerCommands(parts: Parts): Disposable[] {
  const { agent, panel, approvals, proposedEdits, diffTitle, changes, inline, edits, commitMessages, editors } = parts;
  const show = async (what: "new" | "newIsolated" | "list" | "input") => {
    await focusPanel();
    panel.tell({ type: "show", what });
  };
  const attach = async (added: readonly (Part | undefined)[]) => {
    await focusPanel();
    for (const part of added) if (part) panel.tell({ type: "attach", part });
  };
  const actions: Record<string, (...args: never[]) => unknown> = {
    "oh.focus": () => show("input"),
    "oh.new": () => show("new"),
    "oh.newIsolated": () => show("newIsolated"),
    "oh.list": () => show("list"),
    "oh.openInEditor": (conversationId?: string) => panel.openInEditor(conversationId),
    "oh.pause": () => ofPanel(parts, (conversationId) => agent.request("conversation/pause", { conversationId })),
    "oh.resume": () => ofPanel(parts, (conversationId) => agent.request("conversation/resume", { conversationId })),
    "oh.stop": () => ofPanel(parts, (conversationId) => agent.request("conversation/interrupt", { conversationId })),
    "oh.condense": () => ofPanel(parts, (conversationId) => agent.request("conversation/condense", { conversationId })),
    "oh.export": () => ofPanel(parts, (conversationId) => exportConversation(agent, conversationId)),
    "oh.restoreCheckpoint": () => ofPanel(parts, (conversationId) => restoreCheckpoint(agent, conversationId)),
    "oh.mcp": () => showMcpServers(agent),
    "oh.showChanges": () =>
      ofPanel(parts, async (conversationId) => commands.executeCommand("ohDaemon.showChanges", { conversationId })),
    "oh.addSelection": () => attach([editors.part]),
    // The explorer tells all files that are chosen, a tab's menu where the tab is.
    "oh.addFile": (clicked?: Uri, chosen?: unknown) => {
      const files: readonly (Uri | undefined)[] = Array.isArray(chosen) ? chosen : [clicked];
      return attach(files.map((uri) => uri && fileLink(uri)));
    },
    "oh.addTerminalSelection": async () => attach([await terminalText("selection")]),
    "oh.approve": (clicked?: Clicked) => approvals.answer("allow", clicked),
    "oh.reject": (clicked?: Clicked) => approvals.answer("reject", clicked),
    "oh.nextPending": () => approvals.next(),
    "oh.rejectWithNote": () => approvals.rejectWithNote(),
    "oh.reviewProposal": (approvalId: string) => proposedEdits.review(approvalId),
    "oh.keepDiff": (clicked?: Uri) => told(() => diffTitle.settle("keep", clicked)),
    "oh.undoDiff": (clicked?: Uri) => told(() => diffTitle.settle("undo", clicked)),
    "oh.keepChange": (...of: Settled) => told(() => inline.settle("keep", ...of)),
    "oh.undoChange": (...of: Settled) => told(() => inline.settle("undo", ...of)),
    "oh.keepFile": (clicked?: Uri) => told(() => inline.settleFile("keep", clicked)),
    "oh.undoFile": (clicked?: Uri) => told(() => inline.settleFile("undo", clicked)),
    "oh.keepAll": () => told(() => changes.settleAll("keep")),
    "oh.undoAll": () => told(() => changes.settleAll("undo")),
    "oh.nextChange": () => told(() => inline.go(1)),
    "oh.previousChange": () => told(() => inline.go(-1)),
    "oh.peekChange": (of: LensArguments) => told(() => inline.peek(of)),
    "oh.edit": () => told(() => edits.begin()),
    "oh.stopEdit": () => told(() => edits.stop()),
    "oh.dismissEdit": (conversationId: string) => edits.dismiss(conversationId),
    "oh.writeCommitMessage": (of?: { rootUri?: Uri }) => told(() => commitMessages.write(of)),
    "oh.stopCommitMessage": () => told(() => commitMessages.stop()),
    "oh.fixTest": (failing: Failing) => told(async () => showConversation(await fixTest(agent, panel, failing), panel)),
    "oh.startAttempts": (task?: string) =>
      told(async () => {
        const first = await startAttempts(agent, panel, parts.memory, task);
        if (first) await showConversation(first, panel);
      }),
    "oh.showConversation": (conversationId: string) => showConversation(conversationId, panel),
    "oh.setKey": () => told(parts.askForKey),
    "oh.exposeSecret": parts.askForSecret,
    "oh.install": () => agent.install(),
    "oh.restart": () => agent.restart(),
    "oh.move": () => agent.move(),
    "oh.log": () => agent.log.show(),
    "oh.settings": showSettings,
    "oh.walkthrough": showWalkthrough,
  };
  return Object.entries(actions).map(([name, action]) => commands.registerCommand(name, action));
}

/** Shows the conversation named by `vscode://oh-daemon.oh-daemon/resume?id=CONVERSATION`. */
export async function openLink(uri: Uri, panel: Panel): Promise<void> {
  const conversationId = new URLSearchParams(uri.query).get("id");
  if (uri.path !== "/resume" || !conversationId) {
    void window.showErrorMessage("oh: this link names no conversation; one that does ends in /resume?id=…");
    return;
  }
  await showConversation(conversationId, panel);
}

export async function showConversation(conversationId: string, panel: Panel): Promise<void> {
  if (panel.reveal(conversationId)) return;
  await focusPanel();
  panel.tell({ type: "open", conversationId });
}

/** Most settings have the scope of a machine: in a remote window only the page of that machine shows them, and all others. */
async function showSettings(): Promise<void> {
  const page = env.remoteName === undefined ? "openSettings" : "openRemoteSettings";
  await commands.executeCommand(`workbench.action.${page}`, { query: SETTINGS });
}

/** Steps done before the walkthrough was shown count too: VS Code checks a step only when a context key changes. */
async function showWalkthrough(): Promise<void> {
  await commands.executeCommand("workbench.action.openWalkthrough", WALKTHROUGH);
  for (const isShown of [false, true]) await commands.executeCommand("setContext", "oh.walkthroughShown", isShown);
}

async function focusPanel(): Promise<void> {
  await commands.executeCommand("oh.chat.focus");
}

/** Runs a command on the conversation that the user is in. */
async function ofPanel({ panel }: Parts, action: (conversationId: string) => Promise<unknown>): Promise<void> {
  const { conversationId } = panel;
  if (conversationId !== undefined) await told(() => action(conversationId));
  else void window.showInformationMessage("There is no conversation in the panel yet.");
}

/** Shows an error to the user, as the panel does for its buttons. */
export async function told(action: () => Promise<unknown>): Promise<void> {
  try {
    await action();
  } catch (error) {
    void window.showErrorMessage(`oh: ${error instanceof Error ? error.message : String(error)}`);
  }
}
