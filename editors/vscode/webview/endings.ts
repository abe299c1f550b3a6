/** Why a turn ended, in plain words, where its last answer does not say so itself. */

import type { NoticeItem, StopReason } from "../src/protocol";

const OTHERWISE = { title: "Say what to do differently,", description: "or resume to let it try again." };
const REASONS: Partial<Record<StopReason, { title: string; description?: string }>> = {
  maxTokens: { title: "The answer was cut", description: "the model writes no more at once. “Go on” continues it." },
  maxSteps: { title: "Stopped at the limit of steps.", description: "Resume gives it as many again." },
  maxCostUsd: { title: "Stopped at the limit of cost.", description: "Resume gives it as much again." },
  maxCostUsdPerConversation: { title: "Stopped at the limit of cost of this conversation.", description: "Raise maxCostUsdPerConversation, then resume." },
  maxCostUsdPerDay: { title: "Stopped at the limit of cost of this day.", description: "Raise maxCostUsdPerDay, then resume." },
  refusal: { title: "The model refused to answer." },
  hook: { title: "Stopped by a hook." },
  noAnswer: { title: "The model gave no answer." },
  // Why stands above it already, as a notice of the log.
  toolErrors: OTHERWISE,
  stuck: OTHERWISE,
};

/** So that it is told from an item of the log. */
export const ENDING = "notice-end-";

export function ending(turnId: string, reason: StopReason | undefined): NoticeItem | undefined {
  const words = reason && REASONS[reason];
  return words && { ...words, id: ENDING + turnId, kind: "notice", status: "completed", severity: "info" };
}
