/** Checkpoints: restores the files as they were before the agent changed them; the conversation itself stays. */

import { type QuickPickItem, Uri, window, workspace } from "vscode";
import type { Agent } from "./agent";
import type { Checkpoint, RestoreResult } from "./protocol";
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

/** Says first what would happen, and asks for consent unless nothing would. */
async function isAgreed({ title }: Checkpoint, { restored, conflicts }: RestoreResult): Promise<boolean> {
  const stays = conflicts.map(({ uri, reason }) => `${nameOf(uri)}: ${reason}`);
  if (restored.length === 0) {
    void window.showInformationMessage(`Nothing is left to put back. ${stays.join("; ")}`.trim());
    return false;
  }
  const detail = [
    ["The agent's changes since then are undone in:", ...restored.map(nameOf)],
    stays.length > 0 ? ["This stays as it is:", ...stays] : [],
  ]
    .map((lines) => lines.join("\n"))
    .filter(Boolean)
    .join("\n\n");
  const action = `Put Back ${formatCount(restored.length, "File")}`;
  const answer = await window.showWarningMessage(`Go back to before “${title}”?`, { modal: true, detail }, action);
  return answer === action;
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
