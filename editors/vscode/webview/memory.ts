/** What the window remembers for the panel while that is hidden or reloaded. */

import type { HalfAnswer, PanelMemory } from "../src/messages";
import { remember } from "./host";

const MAX_HALF_ANSWERS = 20;

export class Memory {
  now: PanelMemory = {};
  private isKnown = false;

  /** Takes what was remembered; what the user has typed before that is kept. */
  begin(memory: PanelMemory): void {
    this.now = { ...memory, ...this.now };
    this.isKnown = true;
  }

  keep(change: { [K in keyof PanelMemory]: PanelMemory[K] | undefined }): void {
    const merged = { ...this.now, ...change };
    this.now = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
    if (this.isKnown) remember(this.now);
  }

  /** Adds to what the user has begun to answer; the oldest answers are forgotten. */
  keepHalfAnswer(askedId: string, change: HalfAnswer): void {
    const { [askedId]: before, ...others } = this.now.halfAnswers ?? {};
    const kept = Object.entries(others).slice(-MAX_HALF_ANSWERS);
    this.keep({ halfAnswers: Object.fromEntries([...kept, [askedId, { ...before, ...change }]]) });
  }
}
