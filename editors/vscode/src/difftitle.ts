/** The diff in view: a proposal that awaits approval, or a change to keep or undo from the diff's title. */

import { commands, type Disposable, TabInputTextDiff, type Tab, Uri, window, workspace } from "vscode";
import type { Agent } from "./agent";
import type { Approvals } from "./approvals";
import { DIFF_SCHEME } from "./diff";
import type { Notification } from "oh-daemon-client/store";

type Shown =
  | { kind: "proposal"; tab: Tab; approvalId: string }
  | { kind: "change"; tab: Tab; conversationId: string; file: Uri };

/** Events after which a file may await review, or no longer does. */
const TOUCHING: ReadonlySet<string> = new Set(["changes.updated", "changes.reviewed", "status.changed"]);

export class DiffTitle implements Disposable {
  private readonly listeners: Disposable[];
  private nAsked = 0;

  constructor(
    private readonly agent: Agent,
    approvals: Approvals,
  ) {
    const changed = () => void this.refresh();
    this.listeners = [
      window.tabGroups.onDidChangeTabs(changed),
      window.tabGroups.onDidChangeTabGroups(changed),
      agent.onNotification((notification) => touches(notification) && changed()),
      agent.onState(changed),
      approvals.onCount(changed),
    ];
  }

  /** Decides all pending changes of the file. Where the user has written since, their text stays, with a warning. */
  async settle(decision: "keep" | "undo", clicked?: Uri): Promise<void> {
    const shown = shownDiff(clicked);
    const uri = shown?.kind === "change" ? await this.waiting(shown) : undefined;
    if (shown?.kind !== "change" || uri === undefined) return;
    const { conversationId, file, tab } = shown;
    const { conflicts } = await this.agent.request(`changes/${decision}`, { conversationId, uris: [uri] });
    const conflict = conflicts[0];
    if (conflict) void window.showWarningMessage(`oh: ${workspace.asRelativePath(file)}: ${conflict.reason}`);
    else await window.tabGroups.close(tab, true);
  }

  dispose(): void {
    for (const each of this.listeners) each.dispose();
  }

  private async refresh(): Promise<void> {
    const mine = ++this.nAsked;
    const shown = shownDiff();
    const kind = shown && (shown.kind === "proposal" || (await this.waiting(shown)) !== undefined) ? shown.kind : "";
    if (mine !== this.nAsked) return;
    await commands.executeCommand("setContext", "oh.diffShown", kind);
  }

  /** The file's URI as the daemon names it, if some of its changes await review. */
  private async waiting({ conversationId, file }: Extract<Shown, { kind: "change" }>): Promise<string | undefined> {
    if (this.agent.state.kind !== "running") return undefined;
    // Fails for a conversation that this window has not opened; it cannot be reviewed here.
    const listed = await this.agent.request("changes/list", { conversationId }).catch(() => undefined);
    const found = listed?.files.find(({ uri }) => Uri.parse(uri).toString() === file.toString());
    return found?.state === "pending" || found?.state === "conflict" ? found.uri : undefined;
  }
}

/** The diff in the active tab, or the one whose title was clicked. */
export function shownDiff(clicked?: Uri): Shown | undefined {
  const { all, activeTabGroup } = window.tabGroups;
  const tabs = clicked ? all.map((group) => group.activeTab) : [activeTabGroup.activeTab];
  const isMeant = ({ modified }: TabInputTextDiff) => !clicked || modified.toString() === clicked.toString();
  for (const tab of tabs) {
    if (tab?.input instanceof TabInputTextDiff && isMeant(tab.input)) return described(tab, tab.input);
  }
  return undefined;
}

function described(tab: Tab, { original, modified }: TabInputTextDiff): Shown | undefined {
  const approvalId = modified.scheme === DIFF_SCHEME && new URLSearchParams(modified.query).get("approval");
  if (approvalId) return { kind: "proposal", tab, approvalId };
  if (original.scheme === DIFF_SCHEME) {
    const conversationId = new URLSearchParams(original.query).get("conversation");
    const file = original.with({ scheme: "file", query: "" });
    return conversationId === null ? undefined : { kind: "change", tab, conversationId, file };
  }
  // URIs of the daemon's own documents have the conversation in the path and the file in the query.
  const conversationId = original.path.split("/").find((each) => each !== "");
  if (original.scheme !== "oh-diff" || !conversationId) return undefined;
  return { kind: "change", tab, conversationId, file: Uri.parse(original.query.replace(/^uri=/, "")) };
}

function touches({ method, params }: Notification): boolean {
  return method === "conversation/event" && TOUCHING.has(params.event.type);
}
