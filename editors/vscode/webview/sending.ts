/** The message that is on its way to the daemon, which the transcript does not have yet. */

import type { Part } from "../src/protocol";

/** A message that arrives sooner is not shown before that: it would flicker. */
const SLOW_MS = 500;

export class Sending {
  /** Undefined when none is shown. */
  shown: readonly Part[] | undefined;

  constructor(private readonly redraw: () => void) {}

  show(content: readonly Part[]): void {
    this.shown = content;
    this.redraw();
  }

  end(content: readonly Part[]): void {
    if (this.shown === content) this.shown = undefined;
    this.redraw();
  }

  /** Shows a message to an open conversation if it takes long and the user is still there. */
  async showIfSlow(content: readonly Part[], isThere: () => boolean, arrival: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => isThere() && this.show(content), SLOW_MS);
    try {
      await arrival;
    } finally {
      clearTimeout(timer);
      this.end(content);
    }
  }

  /** The user has gone elsewhere. */
  forget(): void {
    this.shown = undefined;
  }
}
