/** Why a turn ended, in plain words, unless its last answer says so itself. */

import type { StopReason, Turn, UserMessageItem } from "../src/protocol";
import type { Shown } from "./turns";

export interface Ending {
  kind: "ending";
  id: string;
  title: string;
  description?: string;
}

const OTHERWISE = { title: "Say what to do differently,", description: "or resume to let it try again." };
const REASONS: Partial<Record<StopReason, { title: string; description?: string }>> = {
  maxTokens: { title: "The answer was cut", description: "the model writes no more at once. “Go on” continues it." },
  maxSteps: { title: "Stopped at the step limit.", description: "Resume allows as many again." },
  maxCostUsd: { title: "Stopped at the cost limit.", description: "Resume allows as much again." },
  maxCostUsdPerConversation: {
    title: "Stopped at the conversation's cost limit.",
    description: "Raise maxCostUsdPerConversation, then resume.",
  },
  maxCostUsdPerDay: { title: "Stopped at today's cost limit.", description: "Raise maxCostUsdPerDay, then resume." },
  maxMinutes: { title: "Stopped at the time limit.", description: "Resume allows as much again." },
  cancelled: { title: "Interrupted." },
  refusal: { title: "The model refused to answer." },
  // The hook's own words follow.
  hook: { title: "Stopped by a hook" },
  noAnswer: { title: "The model gave no answer." },
  // A notice of the log above it already says why.
  toolErrors: OTHERWISE,
  stuck: OTHERWISE,
};

/** Returns why the turn ended, if it must be said; `before` are the items above it. */
export function ending(turn: Turn | undefined, before: ReadonlyMap<string, Shown>): Ending | undefined {
  const words = turn?.stopReason && REASONS[turn.stopReason];
  if (!turn || !words || isOfRefusal(turn, before)) return undefined;
  const description = turn.stopReason === "hook" ? turn.finalText : words.description;
  return { kind: "ending", id: `end-${turn.id}`, title: words.title, ...(description && { description }) };
}

/** Whether a hook refused the message that began the turn; a notice of the log already says why. */
function isOfRefusal({ stopReason }: Turn, before: ReadonlyMap<string, Shown>): boolean {
  return (
    stopReason === "hook" &&
    [...before.values()].findLast((item): item is UserMessageItem => item.kind === "userMessage")?.status === "rejected"
  );
}
