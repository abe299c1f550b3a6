/** Going back: the files to before one of the agent's actions, or the conversation to before a message. */

import { type QuickPickItem, Uri, window, workspace } from "vscode";
import type { Agent } from "./agent";
import type { Checkpoint, RestoreResult } from "oh-daemon-client/protocol";
import { formatAgo, formatCount } from "./words";

const SAID_MS = 5000;

interface Row extends QuickPickItem {
  checkpoint: Checkpoint;
}

export async function restoreCheckpoint(agent: Agent, conversationId: string): Promise<void> {
  const { checkpoints, problem } = await agent.request("checkpoint/list", { conversationId });
  if (checkpoints.length === 0) {
    void window.showInformationMessage(
      ["The agent has changed no files in this conversation.", problem].filter(Boolean).join(" "),
    );
    return;
  }
  const chosen = await window.showQuickPick([...checkpoints].reverse().map(row), {
    title: "Restore a Checkpoint",
    placeHolder: problem ?? "Put files back as they were before… The conversation goes on.",
    matchOnDescription: true,
  });
  if (!chosen) return;
  const wanted = { conversationId, checkpointId: chosen.checkpoint.id };
  const preview = await agent.request("checkpoint/restore", { ...wanted, dryRun: true });
  if (!(await isAgreed(chosen.checkpoint, preview))) return;
  tell(await agent.request("checkpoint/restore", wanted));
}

function row(checkpoint: Checkpoint): Row {
  const { title, createdAt, nFiles } = checkpoint;
  return { label: title, description: `${formatAgo(createdAt)} · ${formatCount(nFiles, "file")}`, checkpoint };
}

/** Goes back to before a message of the user, if they agree, with or without the files; returns whether they did. */
export async function goBack(agent: Agent, conversationId: string, toItemId: string): Promise<boolean> {
  const wanted = { conversationId, toItemId };
  const preview = await agent.request("conversation/rollback", { ...wanted, files: "restore", dryRun: true });
  const n = preview.restored.length;
  const withFiles = n > 0 ? [`Go Back and Put Back ${formatCount(n, "File")}`] : [];
  const detail = described("This message and all after it leave the conversation; its log keeps them.", preview);
  const question = "Go back to before this message?";
  const answer = await window.showWarningMessage(question, { modal: true, detail }, ...withFiles, "Go Back");
  if (answer === undefined) return false;
  const files = answer === "Go Back" ? "keep" : "restore";
  const done = await agent.request("conversation/rollback", { ...wanted, files });
  if (files === "restore") tell(done);
  return true;
}

/** Says first what would happen, and asks for consent unless nothing would. */
async function isAgreed({ title }: Checkpoint, preview: RestoreResult): Promise<boolean> {
  if (preview.restored.length === 0) {
    void window.showInformationMessage(described("Nothing is left to put back.", preview));
    return false;
  }
  const detail = described("The conversation stays as it is.", preview);
  const action = `Put Back ${formatCount(preview.restored.length, "File")}`;
  const answer = await window.showWarningMessage(`Go back to before “${title}”?`, { modal: true, detail }, action);
  return answer === action;
}

function described(what: string, { restored, conflicts }: RestoreResult): string {
  const undone = restored.length > 0 ? ["", "Files that can be put back as they were:", ...restored.map(nameOf)] : [];
  const stays = conflicts.map(({ uri, reason }) => `${nameOf(uri)}: ${reason}`);
  return [what, ...undone, ...(stays.length > 0 ? ["", "This stays as it is:", ...stays] : [])].join("\n");
}

/** Warns about a file that stays as it is, although a notice in the conversation says so too: it must not be missed. */
function tell({ restored, conflicts }: RestoreResult): void {
  window.setStatusBarMessage(`oh: ${formatCount(restored.length, "file")} put back`, SAID_MS);
  const [first] = conflicts;
  if (first) void window.showWarningMessage(`oh: ${nameOf(first.uri)}: ${first.reason}`);
}

function nameOf(uri: string): string {
  return workspace.asRelativePath(Uri.parse(uri));
}
