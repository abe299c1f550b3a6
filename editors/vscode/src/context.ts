/** Where the user is: the editor they worked in last, and what is selected there. */

import { type Disposable, type TextEditor, type Uri, window, workspace } from "vscode";
import { toRange } from "./editor";
import type { Part } from "./protocol";

export class EditorContext implements Disposable {
  private last: TextEditor | undefined;
  private readonly listener = window.onDidChangeActiveTextEditor(() => this.remember());

  constructor() {
    this.remember();
  }

  /** A click into the panel, an output or a terminal leaves the editor that the user means. */
  get editor(): TextEditor | undefined {
    this.remember();
    return this.last;
  }

  /** What is selected, or the whole file when nothing is. */
  get part(): Part | undefined {
    if (!this.editor) return undefined;
    const { document, selection } = this.editor;
    const uri = document.uri.toString();
    if (selection.isEmpty) return fileLink(document.uri);
    return { type: "selection", uri, range: toRange(selection), text: document.getText(selection), version: document.version };
  }

  dispose(): void {
    this.listener.dispose();
  }

  private remember(): void {
    const isFile = (editor: TextEditor) => editor.document.uri.scheme === "file";
    const visible = window.visibleTextEditors.filter(isFile);
    const candidates = [window.activeTextEditor, this.last, ...visible];
    this.last = candidates.find((each) => each && visible.includes(each));
  }
}

export function fileLink(uri: Uri): Part {
  return { type: "resourceLink", uri: uri.toString(), name: workspace.asRelativePath(uri) };
}
