/** The message that is on its way to the daemon, which the transcript does not have yet. */

import type { Part, Requests } from "oh-daemon-client/protocol";
import { CallError, call } from "./host";

/** The connection's error code for "the daemon ended before it answered". */
const UNANSWERED = -32097;
/** A message that arrives sooner is not shown before that: it would flicker. */
const SLOW_MS = 500;

export class Sending {
  /** Undefined when none is shown. */
  shown: readonly Part[] | undefined;

  constructor(
    private readonly redraw: () => void,
    /** Settles when the daemon runs and the conversation is open, or when they cannot. */
    private readonly settled: () => Promise<void>,
  ) {}

  /** Calls the daemon; if it ends before it answers, calls the next one, which knows the message by its id. */
  async call<M extends "conversation/start" | "conversation/sendMessage">(
    method: M,
    params: Requests[M][0],
  ): Promise<Requests[M][1]> {
    try {
      return await call(method, params);
    } catch (error) {
      if (!(error instanceof CallError) || error.info.code !== UNANSWERED) throw error;
      await this.settled();
      return call(method, params);
    }
  }

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
