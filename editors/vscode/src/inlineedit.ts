/** An instruction for lines of a file: a conversation of its own changes them, and lenses above them say how far it is. */

import {
  type CodeLens,
  type CodeLensProvider,
  commands,
  type Disposable,
  EventEmitter,
  languages,
  type TextDocument,
  type TextEditor,
  ThemeColor,
  Uri,
  window,
  workspace,
} from "vscode";
import type { Agent } from "./agent";
import type { Changes } from "./changes";
import type { EditorContext } from "./context";
import { toRange } from "./editor";
import { lineMap } from "./lines";
import type { Notification } from "oh-daemon-client/store";
import type { Panel } from "./panel";
import type { Approval, InputRequest, Turn } from "oh-daemon-client/protocol";
import { formatCount, formatLines, oneLine } from "./words";

interface Work {
  conversationId: string;
  /** The turn of the instruction; what a later message asks for is not part of it. */
  turnId: string | undefined;
  uri: Uri;
  /** The document, and the lines that are to change in it, when the user gave the instruction. */
  text: string;
  start: number;
  end: number;
  /** Whether the user wants to be asked about every action. */
  isAskedAlways: boolean;
  /** Why it does not go on by itself. */
  hold?: "asked" | "paused" | undefined;
  hasChanged: boolean;
  /** Once the turn has ended. */
  turn?: Turn;
}

const MAX_ANSWER_CHARS = 100;
const GOING_ON: ReadonlySet<string> = new Set(["approval.resolved", "input.resolved", "turn.resumed", "turn.started"]);
const HELD = { asked: "$(bell-dot) The agent asks you", paused: "$(debug-pause) The agent is paused" };
const INSTRUCTIONS =
  "The user gives an instruction for the selection, in the editor itself. Change the file at once, with as few steps as " +
  "possible, and nothing that the instruction does not ask for. Your last message is shown in one line above the change: " +
  "one short sentence, without Markdown.";

export class InlineEdits implements CodeLensProvider, Disposable {
  private readonly works = new Map<string, Work>();
  private readonly lensesChanged = new EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.lensesChanged.event;
  private readonly look = window.createTextEditorDecorationType({
    isWholeLine: true,
    borderStyle: "solid",
    borderWidth: "0 0 0 3px",
    borderColor: new ThemeColor("progressBar.background"),
    backgroundColor: new ThemeColor("editor.rangeHighlightBackground"),
  });
  private readonly listeners: Disposable[];

  constructor(
    private readonly agent: Agent,
    private readonly panel: Panel,
    private readonly editors: EditorContext,
    private readonly changes: Changes,
  ) {
    this.listeners = [
      agent.onNotification((notification) => this.onNotification(notification)),
      agent.onState(({ kind }) => kind !== "running" && this.forget(() => true)),
      changes.onChange(() => this.onChanges()),
      window.onDidChangeVisibleTextEditors(() => this.draw()),
      window.onDidChangeActiveTextEditor(() => this.draw()),
      languages.registerCodeLensProvider({ scheme: "file" }, this),
    ];
  }

  /** Asks for an instruction for the selection, or for the line of the cursor, and begins. */
  async begin(): Promise<void> {
    const editor = window.activeTextEditor;
    if (editor?.document.uri.scheme !== "file") return;
    if (!workspace.isTrusted) {
      void window.showWarningMessage("In a restricted window the agent can only read.");
      return;
    }
    const { document } = editor;
    const range = editor.selection.isEmpty ? document.lineAt(editor.selection.start).range : editor.selection;
    const [start, end] = [range.start.line, lastLine(range.start.line, range.end.line, range.end.character)];
    const place = `${workspace.asRelativePath(document.uri)}:${formatLines(start, end)}`;
    const text = await window.showInputBox({
      title: `Edit ${place}`,
      prompt: `The agent changes ${formatCount(end - start + 1, "line")} as you say, and you keep or undo it there.`,
      placeHolder: "What should change?",
    });
    if (!text?.trim()) return;
    await this.editors.send();
    const uri = document.uri.toString();
    const selected = { uri, range: toRange(range), text: document.getText(range), version: document.version };
    const lines = { text: document.getText(), start, end };
    const { options } = this.panel;
    const { conversation, turnId } = await this.agent.request("conversation/start", {
      title: `${place}: ${text}`.slice(0, MAX_ANSWER_CHARS),
      content: [
        { type: "text", text },
        { type: "selection", ...selected },
      ],
      instructions: INSTRUCTIONS,
      options: { ...options, ...(options.mode === "plan" && { mode: "ask" }) },
    });
    const isAskedAlways = conversation.options.approval === "askAlways";
    const conversationId = conversation.id;
    const work = { conversationId, turnId, uri: document.uri, ...lines, isAskedAlways, hasChanged: false };
    this.works.set(conversationId, work);
    this.draw();
  }

  /** Ends what is under way in the file of the active editor. */
  async stop(): Promise<void> {
    for (const { conversationId } of this.of(window.activeTextEditor?.document.uri).filter(({ turn }) => !turn))
      await this.agent.request("conversation/interrupt", { conversationId });
  }

  dismiss(conversationId: string): void {
    this.forget((work) => work.conversationId === conversationId);
  }

  /**
   * Allows what the instruction asks for: changes of the user's own file, while the turn of the instruction runs. Where
   * more than that is to change, a rule or a hook asks, or the user wants every question, the user is asked; `ask` does
   * it where the answer does not arrive.
   */
  answers(asked: Approval | InputRequest, ask: () => void): boolean {
    const work = this.works.get(asked.conversationId);
    if (!work || work.turn || asked.turnId !== work.turnId) return false;
    const optionId = !work.isAskedAlways && "digest" in asked && allowedBy(work, asked);
    if (optionId && "digest" in asked) {
      const { id: approvalId, digest } = asked;
      this.agent.request("approval/respond", { approvalId, digest, optionId }).catch((error: unknown) => {
        this.agent.log.warn(String(error));
        // A daemon that has ended asks again itself.
        if (this.works.get(work.conversationId) !== work || work.turn) return;
        this.hold(work);
        ask();
      });
      return true;
    }
    this.hold(work);
    return false;
  }

  provideCodeLenses(document: TextDocument): CodeLens[] {
    return this.of(document.uri).flatMap((work) => {
      const { start } = place(document, work);
      const range = document.lineAt(start).range;
      const lens = (title: string, command: string, ...given: unknown[]) => ({
        range,
        command: { title, command, arguments: given },
        isResolved: true,
      });
      const said = lens(wordsOf(work), "oh.showConversation", work.conversationId);
      if (work.turn) return [said, lens("$(close) Dismiss", "oh.dismissEdit", work.conversationId)];
      return [said, lens("$(debug-stop) Stop", "oh.stopEdit")];
    });
  }

  dispose(): void {
    for (const each of [...this.listeners, this.lensesChanged, this.look]) each.dispose();
  }

  private hold(work: Work): void {
    work.hold = "asked";
    this.draw();
  }

  private of(uri: Uri | undefined): Work[] {
    return [...this.works.values()].filter((work) => work.uri.toString() === uri?.toString());
  }

  /** Once the user has decided about the changes, nothing is left to say. */
  private onChanges(): void {
    const waiting = new Set(this.changes.files.map(({ conversationId }) => conversationId));
    for (const work of this.works.values()) work.hasChanged ||= waiting.has(work.conversationId);
    this.forget(({ conversationId, turn, hasChanged }) => hasChanged && !!turn && !waiting.has(conversationId));
  }

  private onNotification({ method, params }: Notification): void {
    if (method === "conversation/changed" && params.change === "deleted") this.dismiss(params.conversation.id);
    if (method !== "conversation/event") return;
    const work = this.works.get(params.conversationId);
    const { event } = params;
    if (!work || work.turn) return;
    if (GOING_ON.has(event.type)) work.hold = undefined;
    if (event.type === "turn.paused") work.hold = "paused";
    if (event.type === "options.changed" && event.values.approval)
      work.isAskedAlways = event.values.approval === "askAlways";
    if (event.type === "turn.completed") work.turn = event.turn;
    if (event.type === "turn.completed" && event.turn.status === "interrupted") this.dismiss(work.conversationId);
    else this.draw();
  }

  private forget(isOver: (work: Work) => boolean): void {
    for (const work of [...this.works.values()]) if (isOver(work)) this.works.delete(work.conversationId);
    this.draw();
  }

  private draw(): void {
    for (const editor of window.visibleTextEditors) if (editor.document.uri.scheme === "file") this.color(editor);
    const isRunning = this.of(window.activeTextEditor?.document.uri).some(({ turn }) => !turn);
    void commands.executeCommand("setContext", "oh.editRunning", isRunning);
    this.lensesChanged.fire();
  }

  private color(editor: TextEditor): void {
    const { document } = editor;
    const running = this.of(document.uri).filter(({ turn }) => !turn);
    editor.setDecorations(
      this.look,
      running.map((work) => {
        const { start, end } = place(document, work);
        return document.lineAt(start).range.union(document.lineAt(end).range);
      }),
    );
  }
}

/** A selection that ends before the first character of a line does not include it. */
function lastLine(start: number, end: number, character: number): number {
  return end > start && character === 0 ? end - 1 : end;
}

/** Where the lines are now; the user and the agent go on to edit. */
function place(document: TextDocument, { text, start, end }: Work): { start: number; end: number } {
  const toNow = lineMap(text.split(/\r?\n/), document.getText().split(/\r?\n/));
  const first = Math.min(toNow(start), document.lineCount - 1);
  return { start: first, end: Math.min(Math.max(first, toNow(end)), document.lineCount - 1) };
}

/** The id of the answer that allows this once; undefined if the user must decide. */
function allowedBy({ uri }: Work, { subject, risk, options }: Approval): string | undefined {
  if (subject.kind !== "fileChange" || subject.origin || subject.git) return undefined;
  const isFile = subject.changes.every(
    (change) => change.op === "modify" && Uri.parse(change.uri).toString() === uri.toString(),
  );
  // What a rule, a hook or a protected place asks about has no lasting answer.
  const hasLasting = options.some(({ effect, scope }) => effect === "allow" && scope === "conversation");
  if (!isFile || !hasLasting || (risk !== "low" && risk !== "medium")) return undefined;
  return options.find(({ effect, scope }) => effect === "allow" && scope === "once")?.id;
}

function wordsOf({ hold, turn }: Work): string {
  if (!turn) return hold ? HELD[hold] : "$(loading~spin) The agent edits this";
  if (turn.error) return `$(error) ${oneLine(turn.error.message, MAX_ANSWER_CHARS)}`;
  return `$(comment-discussion) ${oneLine(turn.finalText ?? "", MAX_ANSWER_CHARS) || "Show the conversation"}`;
}
