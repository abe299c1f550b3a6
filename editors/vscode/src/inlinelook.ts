/** How the agent's changes look in the buffer; the colours are those of VS Code's own diffs. */

import {
  type DecorationRenderOptions,
  MarkdownString,
  OverviewRulerLane,
  type TextDocument,
  type TextEditorDecorationType,
  ThemeColor,
  window,
} from "vscode";
import type { Hunk } from "oh-daemon-client/protocol";

/** What the commands of one change are given. */
export interface LensArguments {
  uri: string;
  hunk: Hunk;
}

const MAX_HOVER_LINES = 40;

export function addedLines(): TextEditorDecorationType {
  return lines("added", { backgroundColor: new ThemeColor("diffEditor.insertedLineBackground") });
}

export function modifiedLines(): TextEditorDecorationType {
  return lines("modified", { backgroundColor: new ThemeColor("diffEditor.insertedLineBackground") });
}

/** A line above the place where the removed ones were. */
export function removedLines(): TextEditorDecorationType {
  const borderColor = new ThemeColor("editorGutter.deletedBackground");
  return lines("deleted", { borderStyle: "solid", borderWidth: "2px 0 0 0", borderColor });
}

function lines(kind: "added" | "modified" | "deleted", look: DecorationRenderOptions): TextEditorDecorationType {
  return window.createTextEditorDecorationType({
    isWholeLine: true,
    overviewRulerColor: new ThemeColor(`editorOverviewRuler.${kind}Foreground`),
    overviewRulerLane: OverviewRulerLane.Left,
    ...look,
  });
}

/** Shows what the change has removed, and offers both answers. */
export function hoverOf({ uri, languageId }: TextDocument, oldText: string, hunk: Hunk): MarkdownString {
  const given = encodeURIComponent(JSON.stringify([{ uri: uri.toString(), hunk } satisfies LensArguments]));
  const link = (title: string, command: string) => `[${title}](command:${command}?${given})`;
  const text = new MarkdownString("", true);
  text.isTrusted = { enabledCommands: ["oh.keepChange", "oh.undoChange"] };
  const removed = oldText.split("\n").slice(hunk.oldStart, hunk.oldStart + hunk.oldLines);
  const more = removed.length - MAX_HOVER_LINES;
  if (removed.length > 0) {
    text.appendMarkdown("The agent removed:\n");
    text.appendCodeblock(removed.slice(0, MAX_HOVER_LINES).join("\n"), languageId);
    if (more > 0) text.appendMarkdown(`and ${more} more\n\n`);
  } else text.appendMarkdown("The agent added this.\n\n");
  return text.appendMarkdown(`${link("$(check) Keep", "oh.keepChange")} · ${link("$(discard) Undo", "oh.undoChange")}`);
}
