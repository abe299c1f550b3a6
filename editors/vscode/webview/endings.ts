/** Why a turn ended, in plain words, unless its last answer says so itself. */

import type { Ending, UnusualEnd } from "oh-daemon-client/turns";

interface Words {
  title: string;
  description?: string;
}

const OTHERWISE = { title: "Say what to do differently,", description: "or resume to let it try again." };
const REASONS: Record<UnusualEnd, Words> = {
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

export function wordsOf({ reason, turn }: Ending): Words {
  const { title, description } = REASONS[reason] ?? { title: "Stopped." };
  const more = reason === "hook" ? turn.finalText : description;
  return { title, ...(more && { description: more }) };
}
