/** Puts the parts together and gives each an owner; nothing starts before the panel or a command needs it. */

import { commands, type ExtensionContext, window, workspace } from "vscode";
import { Agent } from "./agent";
import { Approvals } from "./approvals";
import { Diffs } from "./diff";
import { lastEditor } from "./host";
import { Panel } from "./panel";
import type { Part } from "./protocol";
import { askForKey } from "./settings";
import { StatusItem } from "./status";

export function activate(context: ExtensionContext): void {
  const log = window.createOutputChannel("oh", { log: true });
  const agent = new Agent(context, log);
  const diffs = new Diffs(agent);
  const panel = new Panel(context, agent, diffs);
  const approvals = new Approvals(agent, diffs, () => panel.isVisible);
  const focus = () => commands.executeCommand("oh.chat.focus");
  const actions: Record<string, () => unknown> = {
    "oh.focus": async () => {
      await focus();
      panel.tell({ type: "show", what: "input" });
    },
    "oh.new": async () => {
      await focus();
      panel.tell({ type: "show", what: "new" });
    },
    "oh.list": async () => {
      await focus();
      panel.tell({ type: "show", what: "list" });
    },
    "oh.stop": () => {
      const conversationId = panel.conversationId;
      return conversationId && agent.request("conversation/interrupt", { conversationId });
    },
    "oh.addSelection": async () => {
      const part = selectedPart();
      await focus();
      if (part) panel.tell({ type: "attach", part });
    },
    "oh.setKey": async () => (await askForKey(context.secrets)) && agent.restart(),
    "oh.settings": () => commands.executeCommand("workbench.action.openSettings", "@ext:oh-daemon.oh-daemon"),
    "oh.restart": () => agent.restart(),
    "oh.log": () => log.show(),
    "oh.approve": () => approvals.answer("allow"),
    "oh.reject": () => approvals.answer("reject"),
  };
  context.subscriptions.push(
    log, agent, diffs, panel, approvals,
    new StatusItem(agent, approvals),
    approvals.onCount((count) => panel.showBadge(count)),
    window.registerWebviewViewProvider("oh.chat", panel),
    workspace.onDidGrantWorkspaceTrust(() => agent.restart()),
    workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("oh.daemon")) void agent.restart();
      else if (change.affectsConfiguration("ohDaemon")) void agent.sendSettings();
    }),
    ...Object.entries(actions).map(([name, action]) => commands.registerCommand(name, action)),
  );
}

/** What is selected, or the whole file when nothing is. */
function selectedPart(): Part | undefined {
  const editor = lastEditor();
  if (!editor) return undefined;
  const { document, selection } = editor;
  const uri = document.uri.toString();
  if (selection.isEmpty) return { type: "resourceLink", uri, name: workspace.asRelativePath(document.uri) };
  const { start, end } = selection;
  const range = {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
  return { type: "selection", uri, range, text: document.getText(selection), version: document.version };
}
