/** What `@` offers besides what the daemon finds: the selection, the problems, a terminal, open editors, files. */

import {
  commands, type Diagnostic, env, languages, TabInputText, type TextEditor, Uri, window, workspace,
} from "vscode";
import { type EditorContext, fileLink } from "./context";
import { toRange } from "./editor";
import type { Suggestion } from "./messages";
import type { Part } from "./protocol";

const MAX_SHOWN = 12;
const MAX_FILES = 30;
const EXCLUDED = "**/{node_modules,.git,.venv,.openhands}/**";

export async function suggestions(query: string, editors: EditorContext): Promise<Suggestion[]> {
  const wanted = query.toLowerCase();
  const special = [selection(editors), problems(editors.editor), terminal()].filter((each) => each !== undefined);
  const open = openFiles();
  const names = new Set(open.map(({ detail }) => detail));
  const found = (await findFiles(query)).filter(({ detail }) => !names.has(detail));
  const isWanted = ({ label, detail = "" }: Suggestion) => `${label} ${detail}`.toLowerCase().includes(wanted);
  return [...special, ...open, ...found].filter(isWanted).slice(0, MAX_SHOWN);
}

/** Extensions see a terminal's text only through the clipboard, which is put back. */
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

function openFiles(): Suggestion[] {
  const inputs = window.tabGroups.all.flatMap(({ tabs }) => tabs).map(({ input }) => input);
  const uris = inputs.flatMap((input) => (input instanceof TabInputText && input.uri.scheme === "file" ? [input.uri] : []));
  return [...new Map(uris.map((uri) => [uri.toString(), uri])).values()].map((uri) => file(uri, "editor"));
}

async function findFiles(query: string): Promise<Suggestion[]> {
  const glob = `**/*${query.replace(/[[\]{}?*!]/g, "")}*`;
  return (await workspace.findFiles(glob, EXCLUDED, MAX_FILES)).map((uri) => file(uri, "file"));
}

function file(uri: Uri, kind: "file" | "editor"): Suggestion {
  const path = workspace.asRelativePath(uri);
  return { kind, label: path.split("/").at(-1) ?? path, detail: path, part: fileLink(uri) };
}
