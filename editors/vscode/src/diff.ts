/** The editor's own diffs: of a proposed edit, of an edit that is done, of all changes of a turn.
 * The log keeps the texts before and after by their hash, so a tab can show them after a reload too. */

import { createHash } from "node:crypto";
import {
  commands,
  type Disposable,
  EventEmitter,
  type Tab,
  TabInputTextDiff,
  type TextDocumentContentProvider,
  Uri,
  window,
  workspace,
} from "vscode";
import type { Agent } from "./agent";
import { patched } from "./patch";
import type { FileChange } from "oh-daemon-client/protocol";

/** Not `oh-diff`: the daemon's own documents have that scheme. */
export const DIFF_SCHEME = "oh-change";

interface Stored {
  conversationId: string;
  sha256?: string;
}

export class Diffs implements TextDocumentContentProvider, Disposable {
  /** Of proposals, and of files as they were before what waits for review. */
  private readonly texts = new Map<string, string>();
  private readonly registration: Disposable;
  private readonly changed = new EventEmitter<Uri>();
  readonly onDidChange = this.changed.event;

  constructor(private readonly agent: Agent) {
    this.registration = workspace.registerTextDocumentContentProvider(DIFF_SCHEME, this);
  }

  async provideTextDocumentContent(uri: Uri): Promise<string> {
    const query = new URLSearchParams(uri.query);
    if (query.has("approval") || query.has("review")) return this.texts.get(uri.toString()) ?? "";
    const [conversationId, sha256] = [query.get("conversation"), query.get("sha256")];
    if (conversationId === null || sha256 === null) return "";
    try {
      return await readText(this.agent, conversationId, sha256);
    } catch {
      // After a reload, a restored tab may ask before the panel has opened the conversation.
      await this.agent.request("conversation/open", { conversationId, replay: "none" });
      return readText(this.agent, conversationId, sha256);
    }
  }

  /** Shows the edit that an approval asks for, computed from its patch and the current text. */
  async openProposal(approvalId: string, change: FileChange): Promise<void> {
    const proposed = await this.propose(approvalId, change);
    const file = Uri.parse(change.uri);
    const name = workspace.asRelativePath(file);
    if (!proposed) {
      void window.showInformationMessage(
        `${name} has changed since, or the change is too long: see the diff in the panel.`,
      );
      return;
    }
    // A file that is to be added does not exist yet, so there is none to show.
    const now = change.op === "add" ? file.with({ scheme: DIFF_SCHEME }) : file;
    await showDiff(now, proposed, `${name} (proposed)`);
  }

  /** Updates an open diff after the user has left out changes of the proposed edit or included them again. */
  async changeProposal(approvalId: string, change: FileChange): Promise<void> {
    if (proposalTabs(approvalId).length > 0) await this.propose(approvalId, change);
  }

  /** Exposes a file's text before the changes that wait for review to the editor's own marks beside the line numbers. */
  keepBefore(file: Uri, text: string): void {
    const uri = beforeUri(file).toString();
    if (this.texts.get(uri) === text) return;
    this.texts.set(uri, text);
    this.changed.fire(beforeUri(file));
  }

  /** Shows an edit that is done, between its own two texts. */
  async openDone(conversationId: string, change: FileChange): Promise<void> {
    const [before, after] = await this.sides(conversationId, change);
    await showDiff(before, after, `${workspace.asRelativePath(Uri.parse(change.uri))} (by the agent)`);
  }

  /** Shows all files of a turn in one editor. */
  async openTurn(conversationId: string, changes: readonly FileChange[]): Promise<void> {
    const rows = changes.map(async (change) => {
      const [before, after] = await this.sides(conversationId, change);
      return [
        Uri.parse(change.uri),
        change.op === "add" ? undefined : before,
        change.op === "delete" ? undefined : after,
      ];
    });
    await commands.executeCommand("vscode.changes", "Changes of this turn", await Promise.all(rows));
  }

  /** Closes the diffs of a request that has been answered. */
  async closeProposal(approvalId: string): Promise<void> {
    const shown = proposalTabs(approvalId);
    if (shown.length > 0) await window.tabGroups.close(shown, true);
    for (const uri of this.texts.keys()) if (isProposed(Uri.parse(uri), approvalId)) this.texts.delete(uri);
  }

  dispose(): void {
    for (const each of [this.registration, this.changed]) each.dispose();
  }

  /** Returns undefined when the change no longer fits the file. */
  private async propose(approvalId: string, change: FileChange): Promise<Uri | undefined> {
    const text = patched(await readNow(Uri.parse(change.uri)), change.patch ?? "");
    if (text === undefined) return undefined;
    const proposed = proposedUri(approvalId, change);
    this.texts.set(proposed.toString(), text);
    this.changed.fire(proposed);
    return proposed;
  }

  /** The right side is the file itself while it is as the agent left it, so that the user can edit it there. */
  private async sides(conversationId: string, change: FileChange): Promise<[Uri, Uri]> {
    const file = Uri.parse(change.uri);
    const stored = (sha256: string | undefined) => storedUri(file, { conversationId, ...(sha256 && { sha256 }) });
    const isAsLeft = change.sha256After !== undefined && hash(await readNow(file)) === change.sha256After;
    return [stored(change.sha256Before), isAsLeft ? file : stored(change.sha256After)];
  }
}

export function beforeUri(file: Uri): Uri {
  return file.with({ scheme: DIFF_SCHEME, query: "review" });
}

function proposedUri(approvalId: string, { uri }: FileChange): Uri {
  return Uri.parse(uri).with({ scheme: DIFF_SCHEME, query: `approval=${approvalId}` });
}

function isProposed(uri: Uri, approvalId: string): boolean {
  return uri.scheme === DIFF_SCHEME && uri.query === `approval=${approvalId}`;
}

function proposalTabs(approvalId: string): Tab[] {
  const tabs = window.tabGroups.all.flatMap(({ tabs }) => tabs);
  return tabs.filter(({ input }) => input instanceof TabInputTextDiff && isProposed(input.modified, approvalId));
}

function storedUri(file: Uri, { conversationId, sha256 }: Stored): Uri {
  const query = new URLSearchParams({ conversation: conversationId, ...(sha256 && { sha256 }) });
  return file.with({ scheme: DIFF_SCHEME, query: query.toString() });
}

async function showDiff(left: Uri, right: Uri, title: string): Promise<void> {
  await commands.executeCommand("vscode.diff", left, right, title, { preserveFocus: true, preview: true });
}

/** Reads a whole text that the log keeps by its hash. */
async function readText(agent: Agent, conversationId: string, outputRef: string): Promise<string> {
  let text = "";
  let offset = 0;
  for (;;) {
    const page = await agent.request("output/read", { conversationId, outputRef, offset });
    text += page.text;
    if (page.nextOffset >= page.total || page.nextOffset <= offset) return text;
    offset = page.nextOffset;
  }
}

/** Reads the text of the open document, else of the file; a file that does not exist yet is empty. */
async function readNow(file: Uri): Promise<string> {
  try {
    return (await workspace.openTextDocument(file)).getText();
  } catch {
    return "";
  }
}

function hash(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex");
}
