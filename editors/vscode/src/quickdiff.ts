/** A source control of the agent's changes: VS Code marks their lines beside the numbers, and shows removed ones. */

import { type Disposable, type SourceControl, type SourceControlResourceGroup, scm, type Uri } from "vscode";
import type { ChangedFile } from "./changes";
import { beforeUri, type Diffs } from "./diff";

export class QuickDiff implements Disposable {
  private shown: { control: SourceControl; group: SourceControlResourceGroup } | undefined;
  private files: ReadonlySet<string> = new Set();

  constructor(private readonly diffs: Diffs) {}

  /** Without a file, the view of source controls does not list the agent. */
  show(files: readonly ChangedFile[]): void {
    this.files = new Set(files.map(({ file }) => file.toString()));
    for (const { file, oldText } of files) this.diffs.keepBefore(file, oldText ?? "");
    if (files.length === 0) return this.dispose();
    this.shown ??= this.create();
    // VS Code asks again for the texts before when the resources of a source control change.
    this.shown.group.resourceStates = files.map(({ file }) => ({
      resourceUri: file,
      command: { title: "Open", command: "vscode.open", arguments: [file] },
    }));
  }

  dispose(): void {
    this.shown?.control.dispose();
    this.shown = undefined;
  }

  private create(): { control: SourceControl; group: SourceControlResourceGroup } {
    const control = scm.createSourceControl("oh", "Agent");
    control.inputBox.visible = false;
    // The bar has the number; the badge of the view is for what is not committed.
    control.count = 0;
    control.quickDiffProvider = {
      provideOriginalResource: (uri: Uri) => (this.files.has(uri.toString()) ? beforeUri(uri) : undefined),
    };
    return { control, group: control.createResourceGroup("waiting", "Changes to Review") };
  }
}
