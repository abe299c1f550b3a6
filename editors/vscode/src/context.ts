/** What the user is looking at: the editor they used last, its selection and problems, and the open files. */

import {
  type Diagnostic,
  Disposable,
  DiagnosticSeverity,
  EventEmitter,
  languages,
  TabInputNotebook,
  TabInputText,
  type TextEditor,
  type Uri,
  window,
  workspace,
} from "vscode";
import type { Agent } from "./agent";
import { toRange } from "./editor";
import type { Looking } from "./messages";
import type { ContextChangedParams, Part } from "oh-daemon-client/protocol";

const DEBOUNCE_MS = 50;
/** A longer selection is sent as its range alone. */
const MAX_SELECTED_CHARS = 32_768;
const SETTING = "shareEditor";

export class EditorContext implements Disposable {
  private readonly lookingEmitter = new EventEmitter<Looking | undefined>();
  readonly onLooking = this.lookingEmitter.event;
  private last: TextEditor | undefined;
  private looked = "";
  private sent = "";
  private timer: NodeJS.Timeout | undefined;
  private readonly listeners: Disposable;

  constructor(private readonly agent: Agent) {
    const changed = () => this.onChange();
    this.listeners = Disposable.from(
      window.onDidChangeActiveTextEditor(changed),
      window.onDidChangeTextEditorSelection(changed),
      window.onDidChangeTextEditorVisibleRanges(changed),
      window.tabGroups.onDidChangeTabs(changed),
      languages.onDidChangeDiagnostics(changed),
      workspace.onDidChangeConfiguration((change) => change.affectsConfiguration(`oh.${SETTING}`) && changed()),
      agent.onState(() => {
        this.sent = "";
        void this.send();
      }),
    );
    this.remember();
  }

  /** Clicking into the panel, an output or a terminal does not change the editor that the user means. */
  get editor(): TextEditor | undefined {
    this.remember();
    return this.last;
  }

  /** The selection, or the whole file when nothing is selected. */
  get part(): Part | undefined {
    if (!this.editor) return undefined;
    const { document, selection } = this.editor;
    const uri = document.uri.toString();
    if (selection.isEmpty) return fileLink(document.uri);
    return {
      type: "selection",
      uri,
      range: toRange(selection),
      text: document.getText(selection),
      version: document.version,
    };
  }

  /** What of it the user is told. */
  get looking(): Looking | undefined {
    if (!this.editor) return undefined;
    const { document, selection } = this.editor;
    const [first, last] = [selection.start.line + 1, selection.end.line + 1];
    return {
      name: workspace.asRelativePath(document.uri),
      nProblems: languages.getDiagnostics(document.uri).filter(isProblem).length,
      isShared: isShared(),
      ...(!selection.isEmpty && { lines: first === last ? String(first) : `${first}–${last}` }),
    };
  }

  dispose(): void {
    this.listeners.dispose();
    this.lookingEmitter.dispose();
    clearTimeout(this.timer);
  }

  private remember(): void {
    const isFile = (editor: TextEditor) => editor.document.uri.scheme === "file";
    const visible = window.visibleTextEditors.filter(isFile);
    const candidates = [window.activeTextEditor, this.last, ...visible];
    this.last = candidates.find((each) => each && visible.includes(each));
  }

  private onChange(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.send(), DEBOUNCE_MS);
    this.tell();
  }

  private tell(): void {
    const { looking } = this;
    const text = JSON.stringify(looking) ?? "";
    if (text === this.looked) return;
    this.looked = text;
    this.lookingEmitter.fire(looking);
  }

  /** Sends the context at once, unless the daemon has it: a message refers to where the user is when they send it. */
  async send(): Promise<void> {
    clearTimeout(this.timer);
    if (this.agent.state.kind !== "running") return;
    const context = this.describe();
    const text = JSON.stringify(context);
    if (text === this.sent) return;
    this.sent = text;
    await this.agent.notify("editor/contextChanged", context);
  }

  private describe(): ContextChangedParams {
    if (!isShared()) return { openUris: openUris() };
    const editor = this.editor;
    const context = { openUris: openUris(), diagnosticsSummary: countDiagnostics() };
    if (!editor) return context;
    const { document, selection } = editor;
    const uri = document.uri.toString();
    const text = document.getText(selection);
    const isShort = !selection.isEmpty && text.length <= MAX_SELECTED_CHARS;
    return {
      ...context,
      activeUri: uri,
      selection: { uri, range: toRange(selection), ...(isShort && { text }) },
      visibleRanges: editor.visibleRanges.map(toRange),
    };
  }
}

/** Whether each message tells the agent what the user looks at. */
function isShared(): boolean {
  return workspace.getConfiguration("oh").get(SETTING, true);
}

export function fileLink(uri: Uri): Part {
  return { type: "resourceLink", uri: uri.toString(), name: workspace.asRelativePath(uri) };
}

function openUris(): string[] {
  const inputs = window.tabGroups.all.flatMap((group) => group.tabs.map((tab) => tab.input));
  const uris = inputs.flatMap((input) =>
    (input instanceof TabInputText || input instanceof TabInputNotebook) && input.uri.scheme === "file"
      ? input.uri.toString()
      : [],
  );
  return [...new Set(uris)];
}

/** A hint or a piece of information is nothing to fix. */
function isProblem({ severity }: Diagnostic): boolean {
  return severity === DiagnosticSeverity.Error || severity === DiagnosticSeverity.Warning;
}

function countDiagnostics(): { errors: number; warnings: number } {
  const all = languages.getDiagnostics().flatMap(([, diagnostics]) => diagnostics);
  const count = (severity: DiagnosticSeverity) => all.filter((each) => each.severity === severity).length;
  return { errors: count(DiagnosticSeverity.Error), warnings: count(DiagnosticSeverity.Warning) };
}
