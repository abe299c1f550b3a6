/** The agent's changes in the open buffer: coloured lines, a lens on each change, the bar, and the keys between them. */

import { setTimeout as delay } from "node:timers/promises";
import {
  type CodeLens,
  type CodeLensProvider,
  commands,
  type Disposable,
  EventEmitter,
  Range as CodeRange,
  languages,
  Selection,
  type TextDocument,
  type TextEditor,
  TextEditorRevealType,
  Uri,
  window,
  workspace,
} from "vscode";
import { ChangeBar } from "./changebar";
import { type ChangedFile, type Changes, type Place, placesIn } from "./changes";
import { beforeUri, type Diffs } from "./diff";
import { addedLines, hoverOf, type LensArguments, modifiedLines, removedLines } from "./inlinelook";
import type { Hunk } from "oh-daemon-client/protocol";
import { QuickDiff } from "./quickdiff";
import { formatCount } from "./words";

type Decision = "keep" | "undo";
/** How VS Code names a change in the peek beside the line numbers: lines count from 1, an end of 0 means none. */
interface LineChange {
  originalStartLineNumber: number;
  originalEndLineNumber: number;
}
/** How often, and how far apart, a peek is asked for before it is given up. */
const MAX_PEEKS = 20;
const BETWEEN_PEEKS_MS = 250;
const SETTING = "inlineChanges";

export function isInlineOn(): boolean {
  return workspace.getConfiguration("oh").get(SETTING, true);
}

export class Inline implements CodeLensProvider, Disposable {
  private readonly lensesChanged = new EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.lensesChanged.event;
  private readonly looks = { added: addedLines(), modified: modifiedLines(), removed: removedLines() };
  private readonly bar = new ChangeBar();
  private readonly listeners: Disposable[];
  private readonly source: QuickDiff;
  private going: Promise<void> = Promise.resolve();

  constructor(
    private readonly changes: Changes,
    diffs: Diffs,
  ) {
    this.source = new QuickDiff(diffs);
    const drawn = () => this.draw();
    this.listeners = [
      changes.onChange(drawn),
      window.onDidChangeVisibleTextEditors(drawn),
      window.onDidChangeActiveTextEditor(() => this.drawBar()),
      window.onDidChangeTextEditorSelection(
        ({ textEditor }) => this.changes.of(textEditor.document.uri) && this.drawBar(),
      ),
      workspace.onDidChangeConfiguration((change) => change.affectsConfiguration(`oh.${SETTING}`) && this.draw()),
      languages.registerCodeLensProvider({ scheme: "file" }, this),
    ];
  }

  provideCodeLenses(document: TextDocument): CodeLens[] {
    const found = this.of(document.uri);
    if (!found) return [];
    const { first, total } = this.numbers(found);
    return placesIn(document, found).flatMap(({ hunk, start }, i) => {
      const range = lineIn(document, start);
      const given: LensArguments = { uri: document.uri.toString(), hunk };
      const lens = (title: string, command: string) => ({
        range,
        command: { title, command, arguments: [given] },
        isResolved: true,
      });
      return [
        lens(`Change ${first + i} of ${total} · +${hunk.newLines} −${hunk.oldLines}`, "oh.peekChange"),
        lens("$(check) Keep", "oh.keepChange"),
        lens("$(discard) Undo", "oh.undoChange"),
      ];
    });
  }

  /** Decides one change: of a lens, of the peek, or the one at the cursor. */
  async settle(
    decision: Decision,
    given?: LensArguments | Uri,
    peeked?: readonly LineChange[],
    index = 0,
  ): Promise<void> {
    const uri = given instanceof Uri ? given : given ? Uri.parse(given.uri) : window.activeTextEditor?.document.uri;
    const found = uri && this.changes.of(uri);
    const change = peeked?.[index];
    const hunk =
      given && !(given instanceof Uri) ? given.hunk : change ? peekedHunk(found, change) : this.atCursor()?.hunk;
    if (found && hunk) await this.changes.settle(decision, [found], hunk);
    else void window.showInformationMessage("No change of the agent waits for review there.");
  }

  async settleFile(decision: Decision, clicked?: Uri): Promise<void> {
    const uri = clicked ?? window.activeTextEditor?.document.uri;
    const found = uri && this.changes.of(uri);
    if (found) await this.changes.settle(decision, [found]);
  }

  /** Shows what a change has replaced, in VS Code's own peek. */
  async peek({ uri, hunk }: LensArguments): Promise<void> {
    const document = await workspace.openTextDocument(Uri.parse(uri));
    const found = this.changes.of(document.uri);
    const place = found && placesIn(document, found).find((each) => isSame(each.hunk, hunk));
    if (!place) return;
    // For VS Code, removed lines belong to the line above them.
    const line = Math.max(0, hunk.newLines > 0 ? place.start : place.start - 1);
    // Until VS Code has compared the texts, of which it does not tell, its command does nothing.
    for (let n = 0; n < MAX_PEEKS && !(await isPeeked(document, line)); n++) {
      await delay(BETWEEN_PEEKS_MS);
      // Each time takes the focus and the cursor: not from a user who has gone on.
      if (!isShown(document, line)) return;
    }
  }

  /** Goes to the next change, or to the previous one for -1; from the last one of a file to the next file. */
  go(step: 1 | -1): Promise<void> {
    // Of two quick presses, the second one begins where the first one leads.
    const reached = this.going.then(() => this.goOn(step));
    this.going = reached.catch(() => undefined);
    return reached;
  }

  dispose(): void {
    const { listeners, looks, bar, source, lensesChanged } = this;
    for (const each of [...listeners, ...Object.values(looks), bar, source, lensesChanged]) each.dispose();
  }

  private async goOn(step: 1 | -1): Promise<void> {
    const files = this.shown().filter(({ hunks, newText }) => hunks.length > 0 && newText !== undefined);
    const editor = window.activeTextEditor;
    const at = files.findIndex(({ file }) => file.toString() === editor?.document.uri.toString());
    const found = files[at];
    if (editor && found) {
      const line = editor.selection.active.line;
      const places = placesIn(editor.document, found);
      const next = step > 0 ? places.find(({ start }) => start > line) : places.findLast(({ start }) => start < line);
      if (next) return show(editor.document, next.start);
    }
    const file = files[(at + step + files.length) % files.length] ?? files[0];
    if (!file) return;
    const document = await workspace.openTextDocument(file.file);
    const place = placesIn(document, file).at(step > 0 ? 0 : -1);
    if (place) await show(document, place.start);
  }

  private shown(): readonly ChangedFile[] {
    return isInlineOn() ? this.changes.files : [];
  }

  private of(uri: Uri): ChangedFile | undefined {
    return this.shown().length > 0 ? this.changes.of(uri) : undefined;
  }

  /** The number of the file's first change among all, counted from 1, and how many there are. */
  private numbers(of: ChangedFile): { first: number; total: number } {
    const counts = this.shown().map((each) => ({ each, n: each.hunks.length }));
    const before = counts.slice(
      0,
      counts.findIndex(({ each }) => each === of),
    );
    const sum = (all: typeof counts) => all.reduce((total, { n }) => total + n, 0);
    return { first: sum(before) + 1, total: sum(counts) };
  }

  private draw(): void {
    for (const editor of window.visibleTextEditors) if (editor.document.uri.scheme === "file") this.color(editor);
    this.lensesChanged.fire();
    this.drawBar();
    this.source.show(this.shown());
  }

  private color(editor: TextEditor): void {
    const { document } = editor;
    const found = this.of(document.uri);
    const places = found ? placesIn(document, found) : [];
    const look = (wanted: (hunk: Hunk) => boolean) =>
      places
        .filter(({ hunk }) => wanted(hunk))
        .map(({ hunk, start, end }) => ({
          range: new CodeRange(lineIn(document, start).start, lineIn(document, Math.max(start, end - 1)).end),
          hoverMessage: hoverOf(document, found?.oldText ?? "", hunk),
        }));
    const { added, modified, removed } = this.looks;
    editor.setDecorations(
      added,
      look((hunk) => hunk.oldLines === 0),
    );
    editor.setDecorations(
      modified,
      look((hunk) => hunk.oldLines > 0 && hunk.newLines > 0),
    );
    editor.setDecorations(
      removed,
      look((hunk) => hunk.newLines === 0),
    );
  }

  private drawBar(): void {
    const files = this.shown();
    const total = files.reduce((sum, { hunks }) => sum + hunks.length, 0);
    const editor = window.activeTextEditor;
    const found = editor && this.of(editor.document.uri);
    const place = this.atCursor();
    const number =
      found && place ? this.numbers(found).first + found.hunks.findIndex((each) => isSame(each, place.hunk)) : 0;
    const of = number > 0 ? `${number} of ` : "";
    // A new file without a line has no change to go to.
    const changes = total > 0 && `${of}${formatCount(total, "change")}`;
    const words = [changes, files.length > 0 && formatCount(files.length, "file")];
    this.bar.show(words.filter(Boolean).join(" · "));
    void commands.executeCommand("setContext", "oh.changesPending", files.length > 0);
    void commands.executeCommand("setContext", "oh.changesInFile", found !== undefined);
  }

  /** The change at the cursor, or the last one above it, or the first one. */
  private atCursor(): Place | undefined {
    const editor = window.activeTextEditor;
    const found = editor && this.of(editor.document.uri);
    if (!found) return undefined;
    const places = placesIn(editor.document, found);
    return places.findLast(({ start }) => start <= editor.selection.active.line) ?? places[0];
  }
}

/** The agent's change that a change in the peek is part of; undefined for one that is the user's own. */
function peekedHunk(found: ChangedFile | undefined, change: LineChange): Hunk | undefined {
  const [from, to] = [change.originalStartLineNumber, change.originalEndLineNumber];
  const [start, end] = to === 0 ? [from, from] : [from - 1, to];
  return found?.hunks.find(({ oldStart, oldLines }) => oldStart <= end && start <= oldStart + oldLines);
}

function isSame(one: Hunk, other: Hunk): boolean {
  return one.oldStart === other.oldStart && one.newStart === other.newStart;
}

function lineIn(document: TextDocument, line: number): CodeRange {
  return document.lineAt(Math.min(line, document.lineCount - 1)).range;
}

/** Opens VS Code's peek at a line; returns whether its editor of the text before is there. */
async function isPeeked(document: TextDocument, line: number): Promise<boolean> {
  await commands.executeCommand("closeQuickDiff");
  await show(document, line);
  await commands.executeCommand("editor.action.dirtydiff.next");
  const before = beforeUri(document.uri).toString();
  return window.visibleTextEditors.some((each) => each.document.uri.toString() === before);
}

/** Whether the cursor is still where `show` has set it. */
function isShown(document: TextDocument, line: number): boolean {
  const editor = window.activeTextEditor;
  const { start } = lineIn(document, line);
  return editor?.document === document && editor.selection.isEqual(new Selection(start, start));
}

async function show(document: TextDocument, line: number): Promise<void> {
  const editor = await window.showTextDocument(document);
  const { start } = lineIn(document, line);
  editor.selection = new Selection(start, start);
  editor.revealRange(editor.selection, TextEditorRevealType.InCenterIfOutsideViewport);
}
