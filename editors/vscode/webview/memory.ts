/** What the window remembers for the panel while that is hidden or reloaded. */

import type { PanelMemory } from "../src/messages";
import { remember } from "./host";

export class Memory {
  now: PanelMemory = {};

  keep(change: { [K in keyof PanelMemory]: PanelMemory[K] | undefined }): void {
    const merged = { ...this.now, ...change };
    this.now = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
    remember(this.now);
  }
}
