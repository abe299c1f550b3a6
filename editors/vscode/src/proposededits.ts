/** Edits that wait for the user, in the open buffer: their lines are marked, and a lens has the answers. */

import {
  type CodeLens,
  type CodeLensProvider,
  Range as CodeRange,
  type Disposable,
  EventEmitter,
  languages,
  MarkdownString,
  type TextDocument,
  type ThemableDecorationInstanceRenderOptions,
  ThemeColor,
  Uri,
  window,
  workspace,
} from "vscode";
import type { Approvals } from "./approvals";
import type { Diffs } from "./diff";
import { isInlineOn } from "./inline";
import { type Place, placesOf } from "./patch";
import { changeWithout, proposalOf } from "./proposal";
import type { Approval, FileChange } from "oh-daemon-client/protocol";
import { formatCount } from "./words";

interface Proposed {
  approval: Approval;
  change: FileChange;
  places: readonly Place[];
}

export class ProposedEdits implements CodeLensProvider, Disposable {
  private readonly lensesChanged = new EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.lensesChanged.event;
  private readonly replaced = window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new ThemeColor("diffEditor.removedLineBackground"),
    overviewRulerColor: new ThemeColor("editorOverviewRuler.modifiedForeground"),
  });
  /** Above the line before which something is to be added. */
  private readonly inserted = window.createTextEditorDecorationType({
    isWholeLine: true,
    borderStyle: "dashed",
    borderWidth: "1px 0 0 0",
    borderColor: new ThemeColor("editorGutter.addedBackground"),
    overviewRulerColor: new ThemeColor("editorOverviewRuler.addedForeground"),
  });
  private readonly listeners: Disposable[];

  constructor(
    private readonly approvals: Approvals,
    private readonly diffs: Diffs,
  ) {
    const drawn = () => this.draw();
    this.listeners = [
      approvals.onCount(drawn),
      window.onDidChangeVisibleTextEditors(drawn),
      workspace.onDidChangeTextDocument(({ document }) => this.of(document).length > 0 && this.draw()),
      workspace.onDidChangeConfiguration((change) => change.affectsConfiguration("oh.inlineChanges") && this.draw()),
      languages.registerCodeLensProvider({ scheme: "file" }, this),
    ];
  }

  provideCodeLenses(document: TextDocument): CodeLens[] {
    return this.of(document).flatMap(({ approval, change, places }) => {
      const { id, risk, subject } = approval;
      const [range] = places.map(({ start }) => lines(document, start, start));
      if (!range) return [];
      const lens = (title: string, command: string, given: unknown = { approvalId: id }) => ({
        range,
        command: { title, command, arguments: [given] },
        isResolved: true,
      });
      const nOthers = subject.kind === "fileChange" ? subject.changes.length - 1 : 0;
      const others = nOthers > 0 ? ` · and ${formatCount(nOthers, "more file")}` : "";
      const danger = risk === "high" ? " · high risk" : "";
      return [
        lens(`Proposed +${change.added} −${change.removed}${others}${danger}`, "oh.reviewProposal", id),
        // What may do harm, or is in other files too, is read as a whole before it is allowed.
        ...(risk === "high" || nOthers > 0 ? [] : [lens("$(check) Allow", "oh.approve")]),
        lens("$(close) Reject", "oh.reject"),
        lens("$(diff) Review", "oh.reviewProposal", id),
      ];
    });
  }

  /** Opens the diff of the document's edit, without what the user has left out. */
  async review(approvalId: string): Promise<void> {
    const { activeTextEditor: editor } = window;
    const found = editor && this.of(editor.document).find(({ approval }) => approval.id === approvalId);
    if (!found) return;
    const proposal = proposalOf(found.approval);
    const omitted = this.approvals.omitted(approvalId);
    await this.diffs.openProposal(approvalId, proposal ? changeWithout(found.change, proposal, omitted) : found.change);
  }

  dispose(): void {
    for (const each of [...this.listeners, this.replaced, this.inserted, this.lensesChanged]) each.dispose();
  }

  /** A place is left out where the text is no longer what the edit was made for. */
  private of(document: TextDocument): Proposed[] {
    if (!isInlineOn()) return [];
    return this.approvals.edits.flatMap(({ approval, change }) => {
      if (Uri.parse(change.uri).toString() !== document.uri.toString()) return [];
      const places = placesOf(change.patch ?? "", document.getText().split(/\r?\n/));
      return [{ approval, change, places }];
    });
  }

  private draw(): void {
    for (const editor of window.visibleTextEditors) {
      const { document } = editor;
      const places = this.of(document).flatMap((each) => each.places);
      const look = ({ start, nRemoved, added }: Place) => ({
        range: lines(document, start, start + Math.max(0, nRemoved - 1)),
        renderOptions: preview(added),
        hoverMessage: new MarkdownString("The agent proposes:\n").appendCodeblock(
          added.length > 0 ? added.join("\n") : "(nothing)",
          document.languageId,
        ),
      });
      editor.setDecorations(this.replaced, places.filter(({ nRemoved }) => nRemoved > 0).map(look));
      editor.setDecorations(this.inserted, places.filter(({ nRemoved }) => nRemoved === 0).map(look));
    }
    this.lensesChanged.fire();
  }
}

/** A single line is shown behind the one that it replaces; one with signs that nobody sees is for the diff. */
function preview([line, ...others]: readonly string[]): ThemableDecorationInstanceRenderOptions {
  if (line === undefined || others.length > 0 || /[^\t\P{C}]/u.test(line)) return {};
  const color = new ThemeColor("gitDecoration.addedResourceForeground");
  return { after: { contentText: `→ ${line.trim()}`, color, margin: "0 0 0 3ch" } };
}

function lines(document: TextDocument, from: number, to: number): CodeRange {
  const last = document.lineCount - 1;
  return new CodeRange(
    document.lineAt(Math.min(from, last)).range.start,
    document.lineAt(Math.min(to, last)).range.end,
  );
}
