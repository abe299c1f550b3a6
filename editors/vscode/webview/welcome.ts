/** Shown while there is no conversation: what the open file suggests, and the latest conversations. */

import type { Looking } from "../src/messages";
import type { ConversationInfo, Part } from "oh-daemon-client/protocol";
import { formatAgo, formatCount } from "../src/words";
import { h, icon, type IconName } from "./dom";
import { call, hasEditor, report } from "./host";

const N_RECENT = 3;

export interface WelcomeActions {
  send: (content: Part[]) => void;
  open: (id: string) => void;
}

interface Idea {
  icon: IconName;
  text: string;
  /** Whether the problems of the file go with it. */
  hasProblems?: boolean;
}

export class Welcome {
  private readonly ideas = h("div.ideas");
  private readonly recent = h("div.recent", { hidden: true });
  readonly element = h(
    "div.welcome",
    {},
    h("h2", {}, "What shall we do?"),
    h(
      "p",
      {},
      hasEditor
        ? "The agent reads the files you have open, with what you have not saved, edits them in place, and asks before anything risky."
        : "The agent works in the folder on your computer, and asks here before anything risky.",
    ),
    this.ideas,
    this.recent,
    h(
      "p",
      {},
      h("kbd", {}, "@"),
      " adds context, ",
      h("kbd", {}, "/"),
      " offers commands, ",
      h("kbd", {}, "Shift"),
      " + ",
      h("kbd", {}, "Enter"),
      " starts a new line.",
    ),
  );
  private shown: Idea[] | undefined;

  constructor(private readonly actions: WelcomeActions) {}

  draw(looking: Looking | undefined): void {
    const ideas = ideasFor(looking);
    // What is the same stays, with the focus.
    if (JSON.stringify(ideas) === JSON.stringify(this.shown)) return;
    this.shown = ideas;
    this.ideas.replaceChildren(
      ...ideas.map((idea) => h("button.idea", { onclick: () => this.take(idea) }, icon(idea.icon), idea.text)),
    );
  }

  /** Call when it is shown; without an answer, there are just no conversations to offer. */
  load(): void {
    call("conversation/list", { limit: N_RECENT })
      .then(({ conversations }) => this.drawRecent(conversations))
      .catch(() => undefined);
  }

  private drawRecent(conversations: readonly ConversationInfo[]): void {
    this.recent.hidden = conversations.length === 0;
    this.recent.replaceChildren(
      h("h3", {}, "Recent"),
      ...conversations.map(({ id, title, updatedAt }) =>
        h(
          "button.idea",
          { title, onclick: () => this.actions.open(id) },
          h("span.name", {}, title || "Untitled"),
          h("span.when", {}, formatAgo(updatedAt)),
        ),
      ),
    );
  }

  private take({ text, hasProblems }: Idea): void {
    const ask = { type: "text", text: `${text}.` } as const;
    if (!hasProblems) return this.actions.send([ask]);
    call("host/mentions", {})
      .then(({ suggestions }) => suggestions.flatMap(({ kind, part }) => (kind === "problems" && part ? [part] : [])))
      .then((problems) => this.actions.send([ask, ...problems]))
      .catch(report);
  }
}

function ideasFor(looking: Looking | undefined): Idea[] {
  if (!looking) return [{ icon: "book", text: "Explain what is in this folder" }];
  const { name, lines, nProblems } = looking;
  const fix: Idea = { icon: "hand", text: `Fix the ${formatProblems(nProblems)} in ${name}`, hasProblems: true };
  return [
    ...(nProblems > 0 ? [fix] : []),
    { icon: "book", text: lines === undefined ? `Explain ${name}` : `Explain lines ${lines} of ${name}` },
    { icon: "pencil", text: `Write tests for ${name}` },
  ];
}

function formatProblems(n: number): string {
  return n === 1 ? "problem" : formatCount(n, "problem");
}
