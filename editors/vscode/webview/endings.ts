/** Why a turn ended, in plain words, where its last answer does not say so itself. */

import type { NoticeItem, StopReason, StuckDetected } from "../src/protocol";

const REASONS: Partial<Record<StopReason, { title: string; description?: string }>> = {
  maxTokens: { title: "The answer was cut", description: "at the most that the model writes at once. “Go on” continues it." },
  maxSteps: { title: "Stopped at the limit of steps.", description: "Resume gives it as many again." },
  maxCostUsd: { title: "Stopped at the limit of cost.", description: "Resume gives it as much again." },
  maxCostUsdPerConversation: { title: "Stopped at the limit of cost of this conversation.", description: "Raise maxCostUsdPerConversation, then resume." },
  maxCostUsdPerDay: { title: "Stopped at the limit of cost of this day.", description: "Raise maxCostUsdPerDay, then resume." },
  refusal: { title: "The model refused to answer." },
  hook: { title: "Stopped by a hook." },
  noAnswer: { title: "The model gave no answer." },
  toolErrors: { title: "Stopped:", description: "the model kept calling tools in a way that they do not understand." },
  stuck: { title: "Stopped: the agent went in circles.", description: "Say what to do differently, or resume to let it try again." },
};
const PATTERNS: Record<StuckDetected["pattern"], string> = {
  wrongCalls: "kept calling tools the wrong way",
  identicalCalls: "made the same call again and again",
  sameError: "ran into the same error again and again",
  alternatingCalls: "went back and forth between the same calls",
  monologue: "talked on without doing anything",
};

/** So that it is told from an item of the log. */
export const ENDING = "notice-end-";

export function ending(turnId: string, reason: StopReason | undefined): NoticeItem | undefined {
  const words = reason && REASONS[reason];
  return words && { ...words, id: ENDING + turnId, kind: "notice", status: "completed", severity: "info" };
}

/** That it was stopped for it is said at the end of the turn. */
export function nudge({ pattern }: StuckDetected): Pick<NoticeItem, "severity" | "title"> {
  return { severity: "info", title: `The agent ${PATTERNS[pattern]}; it was told to try another way.` };
}
