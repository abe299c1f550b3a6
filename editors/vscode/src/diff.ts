/** The editor's own diff of a change that is proposed or done; the other side is made from its patch. */

import { commands, type Disposable, type TextDocumentContentProvider, Uri, window, workspace } from "vscode";
import { patched } from "./patch";
import type { FileChange } from "./protocol";

export const DIFF_SCHEME = "oh-diff";

export class DiffTexts implements TextDocumentContentProvider, Disposable {
  private readonly texts = new Map<string, string>();
  private readonly registration: Disposable;

  constructor() {
    this.registration = workspace.registerTextDocumentContentProvider(DIFF_SCHEME, this);
  }

  provideTextDocumentContent(uri: Uri): string {
    return this.texts.get(uri.query) ?? "";
  }

  async open(change: FileChange, isDone: boolean): Promise<void> {
    const file = Uri.parse(change.uri);
    const now = await readText(file);
    const other = patched(now, change.patch ?? "", isDone ? "undo" : "apply");
    const name = workspace.asRelativePath(file);
    if (other === undefined) {
      void window.showInformationMessage(`${name} has changed since, so only the diff in the panel is left.`);
      return;
    }
    const virtual = this.keep(file, other);
    const [left, right] = isDone ? [virtual, file] : [file, virtual];
    const title = isDone ? `${name} (by the agent)` : `${name} (proposed)`;
    await commands.executeCommand("vscode.diff", left, right, title, { preserveFocus: true, preview: true });
  }

  dispose(): void {
    this.registration.dispose();
  }

  private keep(file: Uri, text: string): Uri {
    const key = String(this.texts.size);
    this.texts.set(key, text);
    return file.with({ scheme: DIFF_SCHEME, query: key });
  }
}

/** The open document's text, else the file's; a file that does not exist yet is empty. */
async function readText(file: Uri): Promise<string> {
  try {
    return (await workspace.openTextDocument(file)).getText();
  } catch {
    return "";
  }
}
