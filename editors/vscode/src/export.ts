/** Exports a conversation: Markdown in an editor, a page or the log itself as a file. */

import { env, UIKind, Uri, window, workspace } from "vscode";
import type { Agent } from "./agent";
import type { ExportParams } from "oh-daemon-client/protocol";

type Format = NonNullable<ExportParams["format"]>;

const FORMATS: { label: string; detail: string; format: Format }[] = [
  { label: "Markdown", detail: "Opens in an editor, for a note or an issue", format: "markdown" },
  { label: "Web Page", detail: "One file that opens in any browser, light or dark", format: "html" },
  { label: "Log", detail: "Its events as JSON lines", format: "jsonl" },
];

export async function exportConversation(agent: Agent, conversationId: string): Promise<void> {
  const chosen = await window.showQuickPick(FORMATS, { title: "Export This Conversation", placeHolder: "As what?" });
  if (!chosen) return;
  const { text } = await agent.request("conversation/export", { conversationId, format: chosen.format });
  if (chosen.format === "markdown") {
    await window.showTextDocument(await workspace.openTextDocument({ language: "markdown", content: text }));
    return;
  }
  const folder = workspace.workspaceFolders?.[0]?.uri;
  const name = `conversation-${conversationId.slice(0, 8)}.${chosen.format}`;
  const place = await window.showSaveDialog({
    ...(folder && { defaultUri: Uri.joinPath(folder, name) }),
    title: "Export This Conversation",
  });
  if (!place) return;
  await workspace.fs.writeFile(place, new TextEncoder().encode(text));
  await offerToOpen(place, chosen.format);
}

async function offerToOpen(place: Uri, format: Format): Promise<void> {
  // A browser can open the file only if the editor's window and the file are on the same computer.
  const isHere = env.uiKind === UIKind.Desktop && env.remoteName === undefined;
  const choices = [...(format === "html" && isHere ? ["Open in Browser"] : []), "Open in Editor"];
  const answer = await window.showInformationMessage(`Exported to ${workspace.asRelativePath(place)}.`, ...choices);
  if (answer === "Open in Browser") await env.openExternal(place);
  else if (answer) await window.showTextDocument(place);
}
