/** Whether the problems that the editor shows belong to the current text of a document, or to an earlier one. */

import { Disposable, extensions, languages, type Uri, workspace } from "vscode";
import { openDocument } from "./editor";

/** The daemon waits a second after an edit. Language extensions take a third of one before they even begin. */
const LONGEST_MS = 900;
/** A language extension may report twice: what is wrong in the text's form, then in its meaning. */
const QUIET_MS = 100;

export class Reports implements Disposable {
  /** Documents that have changed since their problems were reported last. */
  private readonly outdated = new Set<string>();
  private readonly listeners = Disposable.from(
    workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      if (contentChanges.length > 0) this.outdated.add(document.uri.toString());
    }),
    workspace.onDidCloseTextDocument(({ uri }) => this.outdated.delete(uri.toString())),
    languages.onDidChangeDiagnostics(({ uris }) => {
      for (const uri of uris) this.outdated.delete(uri.toString());
    }),
  );

  /** Waits until a language extension has looked at the text, or has had time to: one that finds no difference is silent. */
  async settled(uri: Uri): Promise<void> {
    const key = uri.toString();
    if (!this.outdated.has(key) || !hasExtension(key)) return;
    await reported(key);
    this.outdated.delete(key);
  }

  dispose(): void {
    this.listeners.dispose();
  }
}

function reported(key: string): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      listener.dispose();
      clearTimeout(last);
      clearTimeout(quiet);
      resolve();
    };
    let quiet: NodeJS.Timeout | undefined;
    const last = setTimeout(end, LONGEST_MS);
    const listener = languages.onDidChangeDiagnostics(({ uris }) => {
      if (!uris.some((uri) => uri.toString() === key)) return;
      clearTimeout(quiet);
      quiet = setTimeout(end, QUIET_MS);
    });
  });
}

/** Whether an extension for the document's language is at work. Nobody reports problems of plain text. */
function hasExtension(key: string): boolean {
  const event = `onLanguage:${openDocument(key)?.languageId}`;
  return extensions.all.some(
    ({ isActive, packageJSON }) =>
      isActive && (packageJSON as { activationEvents?: string[] }).activationEvents?.includes(event),
  );
}
