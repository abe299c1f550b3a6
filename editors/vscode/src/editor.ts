/** Answers the daemon's `editor/*` requests from the open documents. The user's text always wins. */

import {
  commands,
  type NotebookDocument,
  Range as CodeRange,
  type TextDocument,
  Uri,
  WorkspaceEdit,
  workspace,
} from "vscode";
import type { ApplyEditResult, ApplyEditParams as Params, OpenDiffParams, Range } from "oh-daemon-client/protocol";

export interface TextEdit {
  range: Range;
  newText: string;
}
/** That of the extension `vscode.ipynb`, which comes with VS Code and reads and writes these notebooks. */
export const JUPYTER = "jupyter-notebook";
/** The one form of LSP's WorkspaceEdit that the daemon sends. */
export type ApplyEditParams = Omit<Params, "edit"> & {
  edit: { documentChanges: readonly { textDocument: { uri: string; version: number }; edits: readonly TextEdit[] }[] };
};

/** Applies the edit as one undo step in one document, if that still has the version the edit was made for. */
export async function applyEdit(params: ApplyEditParams): Promise<ApplyEditResult> {
  const change = params.edit.documentChanges[0];
  const document = change && openDocument(change.textDocument.uri);
  if (!change || !document) return { applied: false, failureReason: "missing" };
  if (document.version !== change.textDocument.version) return { applied: false, failureReason: "stale" };
  const wasClean = !document.isDirty;
  const edit = new WorkspaceEdit();
  for (const each of change.edits) edit.replace(document.uri, toCodeRange(each.range), each.newText);
  const applied = await workspace.applyEdit(edit);
  if (!applied) return { applied, failureReason: "rejected" };
  return { applied, saved: wasClean && params.save === "ifWasClean" && (await document.save()) };
}

export function readDocument(params: { uri: string }): { text: string; version: number; dirty: boolean } {
  const document = openDocument(params.uri);
  if (!document) throw new Error(`${params.uri} is not open`);
  return { text: document.getText(), version: document.version, dirty: document.isDirty };
}

export async function saveDocuments(params: { uris: readonly string[] }): Promise<{ saved: string[] }> {
  const saved: string[] = [];
  for (const uri of params.uris) {
    if (await (openDocument(uri) ?? openNotebook(uri))?.save()) saved.push(uri);
  }
  return { saved };
}

export function openDocument(uri: string): TextDocument | undefined {
  const wanted = Uri.parse(uri).toString();
  return workspace.textDocuments.find((document) => document.uri.toString() === wanted);
}

/** The open Jupyter notebook with this URI, unless it is also open as text. */
export function openNotebook(uri: string): NotebookDocument | undefined {
  if (openDocument(uri)) return undefined;
  const wanted = Uri.parse(uri).toString();
  return workspace.notebookDocuments.find(
    ({ notebookType, uri }) => notebookType === JUPYTER && uri.toString() === wanted,
  );
}

/** Opens the diff without taking the focus from the user's work. */
export async function openDiff({ oldUri, newUri, title }: OpenDiffParams): Promise<Record<string, never>> {
  const options = { preserveFocus: true, preview: true };
  await commands.executeCommand("vscode.diff", Uri.parse(oldUri), Uri.parse(newUri), title, options);
  return {};
}

export function toCodeRange(range: Range): CodeRange {
  return new CodeRange(range.start.line, range.start.character, range.end.line, range.end.character);
}

export function toRange({ start, end }: CodeRange): Range {
  return {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
}
