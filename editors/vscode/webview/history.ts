/** Recalls earlier messages in the input: Up at its start, Down at its end, and back to the draft. */

export class History {
  /** How many messages back the shown one is; 0 is the draft. */
  private back = 0;
  private draft = "";

  constructor(
    private readonly input: HTMLTextAreaElement,
    private readonly messages: () => readonly string[],
  ) {}

  /** The user has typed or sent: the content of the input is the draft from now on. */
  reset(): void {
    this.back = 0;
  }

  /** Returns the text to show instead, or undefined when the key only moves the caret. */
  recall(key: string): string | undefined {
    const { value, selectionStart, selectionEnd } = this.input;
    const messages = this.messages();
    const isUp = key === "ArrowUp";
    const edge = isUp ? 0 : value.length;
    // After a recall the caret is at the end of the text; the next key press recalls the next message.
    const isAtEdge =
      selectionStart === selectionEnd &&
      (selectionStart === edge || (this.back > 0 && selectionStart === value.length));
    const next = this.back + (isUp ? 1 : -1);
    if (!isAtEdge || next < 0 || messages.length === 0) return undefined;
    if (next > messages.length) return value;
    if (this.back === 0) this.draft = value;
    this.back = next;
    return next === 0 ? this.draft : messages.at(-next);
  }
}
