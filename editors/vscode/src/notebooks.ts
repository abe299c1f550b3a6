/**
 * Shows the daemon each open Jupyter notebook as a document: the JSON of its file, with the cells as they are now.
 * An edit of that JSON becomes edits of the cells' texts. The user's text always wins.
 */

import { findNodeAtLocation, getNodeValue, parseTree } from "jsonc-parser";
import type { ApplyEditResult } from "oh-daemon-client/protocol";
import {
  Disposable,
  extensions,
  NotebookCellData,
  NotebookData,
  type NotebookDocument,
  type NotebookDocumentChangeEvent,
  Range as CodeRange,
  type Uri,
  WorkspaceEdit,
  workspace,
} from "vscode";
import type { ClientCapabilities, LanguageClient, StaticFeature } from "vscode-languageclient/node";
import { type ApplyEditParams, JUPYTER, openDocument, openNotebook, type TextEdit } from "./editor";

const SAVE_FIRST =
  "with unsaved changes in a notebook, only the text of its cells can be edited; save the notebook first";
const NO_NOTEBOOK = "the text would no longer be the JSON of a notebook";
/** Keys that come together are sent together. */
const DEBOUNCE_MS = 200;

interface Exporter {
  exportNotebook(data: NotebookData): Promise<string>;
}
interface Cell {
  source?: string | readonly string[];
}
interface Content {
  cells: readonly Cell[];
}
interface Shown {
  version: number;
  text: string;
  /** A text with the same cells and outputs, but for the cells' sources. */
  base: string;
}

export class Notebooks implements StaticFeature {
  private readonly shown = new Map<string, Shown>();
  /** URIs of those whose cells or outputs have changed since their text was sent. */
  private readonly reshaped = new Set<string>();
  private readonly timers = new Map<string, NodeJS.Timeout>();
  private listeners: Disposable | undefined;
  /** One text is sent after the other. */
  private sending: Promise<void> = Promise.resolve();

  constructor(private readonly client: LanguageClient) {}

  initialize(): void {
    this.listeners = Disposable.from(
      workspace.onDidOpenNotebookDocument((notebook) => this.schedule(notebook)),
      workspace.onDidChangeNotebookDocument((change) => this.onChange(change)),
      workspace.onDidSaveNotebookDocument((notebook) => void this.onSave(notebook)),
      workspace.onDidCloseNotebookDocument((notebook) => void this.send(notebook)),
      workspace.onDidCloseTextDocument(({ uri }) => {
        const notebook = openNotebook(uri.toString());
        if (notebook) this.schedule(notebook);
      }),
    );
    for (const each of workspace.notebookDocuments) this.schedule(each);
  }

  clear(): void {
    this.listeners?.dispose();
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
    this.shown.clear();
  }

  fillClientCapabilities(_: ClientCapabilities): void {}

  getState(): { kind: "static" } {
    return { kind: "static" };
  }

  /** Answers `editor/applyEdit` for a notebook. */
  async applyEdit(notebook: NotebookDocument, params: ApplyEditParams): Promise<ApplyEditResult> {
    const change = params.edit.documentChanges[0];
    await this.send(notebook);
    const shown = this.shown.get(notebook.uri.toString());
    if (!change || !shown) return { applied: false, failureReason: "missing" };
    if (change.textDocument.version !== shown.version) return { applied: false, failureReason: "stale" };
    const wasClean = !notebook.isDirty;
    const text = edited(shown.text, change.edits);
    if (!contentOf(text)) return { applied: false, failureReason: NO_NOTEBOOK };
    const sources = changedSources(shown.text, text);
    if (sources.size === 0) {
      if (!wasClean) return { applied: false, failureReason: SAVE_FIRST };
      // VS Code reloads a saved notebook when its file changes.
      await workspace.fs.writeFile(notebook.uri, Buffer.from(text));
      await this.tell(notebook, { ...shown, text, base: text });
      await this.tellSaved(notebook);
      return { applied: true, saved: true };
    }
    const edit = new WorkspaceEdit();
    for (const [index, source] of sources) {
      const { document } = notebook.cellAt(index);
      const { start, end, newText } = difference(document.getText(), source);
      edit.replace(document.uri, new CodeRange(document.positionAt(start), document.positionAt(end)), newText);
    }
    if (!(await workspace.applyEdit(edit))) return { applied: false, failureReason: "rejected" };
    // The text is the daemon's own, however it has written the sources.
    const now = this.shown.get(notebook.uri.toString());
    if (now) now.base = text;
    await this.send(notebook);
    const saved = wasClean && params.save === "ifWasClean" && (await notebook.save());
    if (saved) await this.send(notebook);
    return { applied: true, saved };
  }

  /** Answers `editor/readDocument` for a notebook. */
  async read(notebook: NotebookDocument): Promise<{ text: string; version: number }> {
    await this.send(notebook);
    const shown = this.shown.get(notebook.uri.toString());
    if (!shown) throw new Error(`${notebook.uri} is not open`);
    return { text: shown.text, version: shown.version };
  }

  private onChange({ notebook, contentChanges, metadata, cellChanges }: NotebookDocumentChangeEvent): void {
    const isTextOnly = cellChanges.every((each) => !each.outputs && !each.metadata && !each.executionSummary);
    if (contentChanges.length > 0 || metadata || !isTextOnly) this.reshaped.add(notebook.uri.toString());
    this.schedule(notebook);
  }

  private async onSave(notebook: NotebookDocument): Promise<void> {
    await this.send(notebook);
    await this.tellSaved(notebook);
  }

  private schedule(notebook: NotebookDocument): void {
    const uri = notebook.uri.toString();
    clearTimeout(this.timers.get(uri));
    this.timers.set(
      uri,
      setTimeout(() => void this.send(notebook), DEBOUNCE_MS),
    );
  }

  /** Sends the text if it is not the one that was sent last. */
  send(notebook: NotebookDocument): Promise<void> {
    clearTimeout(this.timers.get(notebook.uri.toString()));
    this.sending = this.sending.then(() =>
      this.sendNow(notebook).catch((error: unknown) => this.client.error(`cannot read ${notebook.uri}`, error)),
    );
    return this.sending;
  }

  private async sendNow(notebook: NotebookDocument): Promise<void> {
    const uri = notebook.uri.toString();
    if (notebook.notebookType !== JUPYTER || notebook.uri.scheme !== "file") return;
    const before = this.shown.get(uri);
    // Opened as text too, the client follows that.
    if (notebook.isClosed || openDocument(uri)) {
      this.shown.delete(uri);
      if (before && !openDocument(uri)) await this.notify("didClose", { textDocument: { uri } });
      return;
    }
    const isReshaped = this.reshaped.delete(uri);
    const base = await baseOf(notebook, isReshaped ? undefined : before?.base);
    const text = notebook.isDirty ? withSources(base, notebook) : base;
    await this.tell(notebook, { version: before?.version ?? 0, text, base });
  }

  private async tell(notebook: NotebookDocument, now: Shown): Promise<void> {
    const uri = notebook.uri.toString();
    const before = this.shown.get(uri);
    const version = now.version + (before?.text === now.text ? 0 : 1);
    this.shown.set(uri, { ...now, version });
    if (!before) {
      await this.notify("didOpen", { textDocument: { uri, languageId: "json", version, text: now.text } });
    } else if (before.text !== now.text) {
      const changes = [{ text: now.text }];
      await this.notify("didChange", { textDocument: { uri, version }, contentChanges: changes });
    }
  }

  private async tellSaved(notebook: NotebookDocument): Promise<void> {
    const uri = notebook.uri.toString();
    if (this.shown.has(uri)) await this.notify("didSave", { textDocument: { uri } });
  }

  private notify(what: string, params: object): Promise<void> {
    return this.client.sendNotification(`textDocument/${what}`, params);
  }
}

/** The file of a saved notebook, else a text that has the cells and outputs of now. */
async function baseOf(notebook: NotebookDocument, earlier: string | undefined): Promise<string> {
  if (!notebook.isDirty) return await read(notebook.uri);
  const isFitting = earlier !== undefined && contentOf(earlier)?.cells.length === notebook.cellCount;
  return isFitting ? earlier : await exported(notebook);
}

async function read(uri: Uri): Promise<string> {
  return new TextDecoder().decode(await workspace.fs.readFile(uri));
}

/** What VS Code would write into the file. */
async function exported(notebook: NotebookDocument): Promise<string> {
  const extension = extensions.getExtension<Exporter>("vscode.ipynb");
  if (!extension) throw new Error("the extension vscode.ipynb is not there");
  const { exportNotebook } = await extension.activate();
  const cells = notebook.getCells().map((cell) => {
    const data = new NotebookCellData(cell.kind, cell.document.getText(), cell.document.languageId);
    data.metadata = cell.metadata;
    data.outputs = [...cell.outputs];
    if (cell.executionSummary) data.executionSummary = cell.executionSummary;
    return data;
  });
  const data = new NotebookData(cells);
  data.metadata = notebook.metadata;
  return await exportNotebook(data);
}

/** Puts the cells' texts into the JSON, where they differ. */
function withSources(base: string, notebook: NotebookDocument): string {
  const root = parseTree(base);
  let text = base;
  for (const [index, cell] of [...notebook.getCells().entries()].reverse()) {
    const node = root && findNodeAtLocation(root, ["cells", index, "source"]);
    const source = cell.document.getText().replaceAll("\r\n", "\n");
    // Data enters here: an entry may have any type until it is compared.
    if (!node || joined(getNodeValue(node) as Cell["source"]) === source) continue;
    text = text.slice(0, node.offset) + listOf(source, base, node.offset) + text.slice(node.offset + node.length);
  }
  return text;
}

/** The lines as a list, indented as nbformat and VS Code do it, in the place of the list at this offset. */
function listOf(source: string, base: string, offset: number): string {
  const lines = source.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const unit = /^\{\r?\n([ \t]+)/.exec(base)?.[1] ?? " ";
  const indent = /^[ \t]*/.exec(base.slice(base.lastIndexOf("\n", offset - 1) + 1))?.[0] ?? "";
  const rows = lines.map((line) => `\n${indent}${unit}${JSON.stringify(line)}`);
  return rows.length > 0 ? `[${rows.join(",")}\n${indent}]` : "[]";
}

/** What differs between two texts, as one edit of the first. */
function difference(before: string, after: string): { start: number; end: number; newText: string } {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let rest = 0;
  while (rest < most - start && before.at(-1 - rest) === after.at(-1 - rest)) rest++;
  return { start, end: before.length - rest, newText: after.slice(start, after.length - rest) };
}

function joined(source: Cell["source"]): string {
  return typeof source === "string" ? source : (source ?? []).join("");
}

/** The new sources by the cell's index; none if the texts differ in more than that. */
function changedSources(before: string, after: string): Map<number, string> {
  const [old, now] = [contentOf(before), contentOf(after)];
  if (!old || !now || JSON.stringify(withoutSources(old)) !== JSON.stringify(withoutSources(now))) return new Map();
  const sources = now.cells.map((cell) => joined(cell.source));
  return new Map([...sources.entries()].filter(([index, source]) => joined(old.cells[index]?.source) !== source));
}

function contentOf(text: string): Content | undefined {
  try {
    // Data enters here; all that has no list of cells is no notebook.
    const content = JSON.parse(text) as Partial<Content> | null;
    return Array.isArray(content?.cells) ? { ...content, cells: content.cells } : undefined;
  } catch {
    return undefined;
  }
}

function withoutSources(content: Content): object {
  return { ...content, cells: content.cells.map((cell) => ({ ...cell, source: null })) };
}

/** The text after LSP's edits, whose positions count UTF-16 units as strings here do. */
function edited(text: string, edits: readonly TextEdit[]): string {
  const starts = [0, ...[...text.matchAll(/\r\n|\r|\n/g)].map((match) => match.index + match[0].length)];
  const offset = ({ line, character }: { line: number; character: number }) =>
    (starts[line] ?? text.length) + character;
  const sorted = edits.map(({ range, newText }) => ({ start: offset(range.start), end: offset(range.end), newText }));
  sorted.sort((one, other) => other.start - one.start);
  return sorted.reduce((now, each) => now.slice(0, each.start) + each.newText + now.slice(each.end), text);
}
