/** Creates the parts and registers them for disposal; nothing starts before the panel or a command needs it. */

import { type ExtensionContext, window, workspace } from "vscode";
import { Agent } from "./agent";
import { Approvals } from "./approvals";
import { Changes } from "./changes";
import { openLink, registerCommands, showConversation } from "./commands";
import { CommitMessages } from "./commitmessage";
import { EditorContext } from "./context";
import { Diffs } from "./diff";
import { DiffTitle } from "./difftitle";
import { Inline } from "./inline";
import { InlineEdits } from "./inlineedit";
import { askForKey } from "./keys";
import { askForSecret } from "./exposed";
import { Notices } from "./notices";
import { Panel, TAB } from "./panel";
import { trackProgress } from "./progress";
import { ProposedEdits } from "./proposededits";
import { StatusItem } from "./status";

export function activate(context: ExtensionContext): void {
  const log = window.createOutputChannel("oh", { log: true });
  const agent = new Agent(context, log);
  const editors = new EditorContext(agent);
  const diffs = new Diffs(agent);
  const panel = new Panel(context, agent, diffs, editors);
  const changes = new Changes(agent);
  const edits = new InlineEdits(agent, panel, editors, changes);
  const notices = new Notices(agent, panel);
  const approvals = new Approvals(agent, diffs, panel, (asked, ask) => edits.answers(asked, ask), notices);
  const showBadge = () => panel.showBadge(approvals.count, notices.nEnded);
  const proposedEdits = new ProposedEdits(approvals, diffs);
  const diffTitle = new DiffTitle(agent, approvals);
  const inline = new Inline(changes, diffs);
  context.subscriptions.push(
    log,
    agent,
    editors,
    diffs,
    panel,
    notices,
    approvals,
    proposedEdits,
    diffTitle,
    changes,
    inline,
    edits,
    new StatusItem(agent, approvals),
    agent.onStarted((conversationId) => showConversation(conversationId, panel)),
    approvals.onCount(showBadge),
    notices.onEnded(showBadge),
    window.registerWebviewViewProvider("oh.chat", panel),
    window.registerWebviewPanelSerializer(TAB, panel),
    window.registerUriHandler({ handleUri: (uri) => openLink(uri, panel) }),
    workspace.onDidGrantWorkspaceTrust(() => agent.restart()),
    workspace.onDidChangeConfiguration((change) => {
      if (["oh.daemon", "oh.attach"].some((name) => change.affectsConfiguration(name)))
        void agent.restartIfCommandChanged();
      else if (change.affectsConfiguration("ohDaemon")) void agent.sendSettings();
    }),
    ...trackProgress(agent),
    ...registerCommands({
      agent,
      panel,
      approvals,
      proposedEdits,
      diffTitle,
      changes,
      inline,
      edits,
      commitMessages: new CommitMessages(agent, panel),
      editors,
      memory: context.workspaceState,
      askForKey: () => askForKey(agent, context.secrets),
      askForSecret: () => askForSecret(context.secrets),
    }),
  );
}
