/** The bar of the agent's changes, in the status bar: where the user is among them, and both answers to all of them. */

import { type Disposable, StatusBarAlignment, type StatusBarItem, window } from "vscode";

export class ChangeBar implements Disposable {
  private readonly count = item("count", 0.3, "oh.nextChange", "Next change of the agent");
  private readonly items = [
    this.count,
    item("keep", 0.2, "oh.keepAll", "Keep all changes of the agent", "$(check-all) Keep all"),
    item("undo", 0.1, "oh.undoAll", "Undo all changes of the agent", "$(discard) Undo all"),
  ];

  /** Without words, hides it. */
  show(words: string): void {
    this.count.text = `$(diff) ${words}`;
    for (const each of this.items) words ? each.show() : each.hide();
  }

  dispose(): void {
    for (const each of this.items) each.dispose();
  }
}

function item(id: string, priority: number, command: string, tooltip: string, text = ""): StatusBarItem {
  const made = window.createStatusBarItem(`oh.changes.${id}`, StatusBarAlignment.Left, priority);
  return Object.assign(made, { name: `oh: ${tooltip}`, command, tooltip, text });
}
