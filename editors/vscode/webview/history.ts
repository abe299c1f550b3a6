/** Earlier messages in the input: up from its first place, down from its last, and back to the draft. */

export class History {
  /** How far back in the earlier messages the input is; 0 is the draft. */
  private back = 0;
  private draft = "";

  constructor(
    private readonly input: HTMLTextAreaElement,
    private readonly messages: () => readonly string[],
  ) {}

  /** The user typed or sent: what is in the input is the draft from now on. */
  reset(): void {
    this.back = 0;
  }

  /** The text to show instead, or undefined when the key is the caret's. */
  recall(key: string): string | undefined {
    const { value, selectionStart, selectionEnd } = this.input;
    const messages = this.messages();
    const isUp = key === "ArrowUp";
    const edge = isUp ? 0 : value.length;
    // A recalled text stands with the caret at its end, and one key more goes on.
    const isAtEdge = selectionStart === selectionEnd && (selectionStart === edge || (this.back > 0 && selectionStart === value.length));
    const next = this.back + (isUp ? 1 : -1);
    if (!isAtEdge || next < 0 || messages.length === 0) return undefined;
    if (next > messages.length) return value;
    if (this.back === 0) this.draft = value;
    this.back = next;
    return next === 0 ? this.draft : messages.at(-next);
  }
}
