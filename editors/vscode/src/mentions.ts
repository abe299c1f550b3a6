/** What `@` offers besides what the daemon finds: the selection, the problems of its file, a terminal. */

import { commands, type Diagnostic, env, languages, type TextEditor, Uri, window, workspace } from "vscode";
import type { EditorContext } from "./context";
import { toRange } from "./editor";
import type { Suggestion } from "./messages";
import type { Part } from "oh-daemon-client/protocol";

export function suggestions(editors: EditorContext): Suggestion[] {
  return [selection(editors), problems(editors.editor), terminal()].filter((each) => each !== undefined);
}

/** Extensions can read a terminal's text only through the clipboard, whose content is restored. */
export async function terminalText(what: "all" | "selection"): Promise<Part | undefined> {
  const before = await env.clipboard.readText();
  await env.clipboard.writeText("");
  if (what === "all") await commands.executeCommand("workbench.action.terminal.selectAll");
  await commands.executeCommand("workbench.action.terminal.copySelection");
  if (what === "all") await commands.executeCommand("workbench.action.terminal.clearSelection");
  const text = await env.clipboard.readText();
  await env.clipboard.writeText(before);
  const name = window.activeTerminal?.name ?? "terminal";
  return text.trim() === "" ? undefined : { type: "resource", uri: `terminal:/${encodeURIComponent(name)}`, text };
}

function selection({ part }: EditorContext): Suggestion | undefined {
  if (part?.type !== "selection") return undefined;
  const { start, end } = part.range;
  const name = workspace.asRelativePath(Uri.parse(part.uri));
  return { kind: "selection", label: "Selection", detail: `${name}:${start.line + 1}–${end.line + 1}`, part };
}

function problems(editor: TextEditor | undefined): Suggestion | undefined {
  const found = editor ? languages.getDiagnostics(editor.document.uri) : [];
  if (!editor || found.length === 0) return undefined;
  const name = workspace.asRelativePath(editor.document.uri);
  const part: Part = { type: "diagnostics", uri: editor.document.uri.toString(), items: found.map(asLsp) };
  return { kind: "problems", label: "Problems", detail: `${found.length} in ${name}`, part };
}

function asLsp({ range, message, severity, source }: Diagnostic): Record<string, unknown> {
  // LSP counts severities from 1, the editor from 0.
  return { range: toRange(range), message, severity: severity + 1, ...(source !== undefined && { source }) };
}

function terminal(): Suggestion | undefined {
  const active = window.activeTerminal;
  return active && { kind: "terminal", label: "Terminal", detail: active.name };
}
