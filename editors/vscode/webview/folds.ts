/** A turn's work as one line: all before its answer, or all but the last steps while there is none. */

import { formatCount, formatDuration } from "../src/words";
import { h, icon } from "./dom";
import type { Memory } from "./memory";
import { isEnd, type Shown } from "oh-daemon-client/turns";

/** How many steps stay open below the line while the agent works. */
const N_OPEN = 3;
/** A line in place of a single step would save nothing. */
const MIN_FOLDED = 2;
const MAX_REMEMBERED = 50;
const SETTLED = ["completed", "failed", "rejected", "cancelled"];

/** The items from one message of the user to the next. */
type Stretch = readonly [Shown, ...Shown[]];

export class Folds {
  private conversationId = "";
  /** By the first item of their stretch; undefined where nothing is folded. */
  private lines = new Map<string, HTMLButtonElement | undefined>();
  private stretches = new Map<string, Stretch>();
  /** How many items a stretch had that is followed by another one: a long conversation has hundreds of those. */
  private readonly done = new Map<string, number>();

  /** `onToggle` is called when the user has opened or closed a line. */
  constructor(
    private readonly elements: ReadonlyMap<string, HTMLElement>,
    private readonly memory: Memory,
    private readonly onToggle: () => void,
  ) {}

  reset(): void {
    this.lines.clear();
    this.done.clear();
  }

  /** Folds what has been done. While somebody reads, nothing that is shown folds under their eyes. */
  draw(conversationId: string, items: Iterable<Shown>, { isBusy, isRead }: { isBusy: boolean; isRead: boolean }): void {
    this.conversationId = conversationId;
    const stretches = stretchesOf(items);
    const last = stretches.at(-1);
    this.stretches = new Map(stretches.map((each) => [each[0].id, each]));
    for (const [key, line] of this.lines) {
      if (this.stretches.has(key)) continue;
      line?.remove();
      this.lines.delete(key);
    }
    for (const [key, stretch] of this.stretches) {
      const isLast = stretch === last;
      if (this.done.get(key) === stretch.length || (isRead && this.lines.has(key))) continue;
      this.fold(key, stretch, { isLast, isBusy: isLast && isBusy });
      if (!isLast) this.done.set(key, stretch.length);
    }
  }

  /** Opens the line that stands for this item, if there is one. */
  reveal(itemId: string): void {
    if (!this.elements.get(itemId)?.hidden) return;
    for (const [key, stretch] of this.stretches) if (stretch.some(({ id }) => id === itemId)) this.toggle(key);
  }

  private fold(key: string, stretch: Stretch, state: { isLast: boolean; isBusy: boolean }): void {
    const { folded, words } = foldOf(stretch, state);
    const isOpen = this.isOpen(stretch);
    for (const item of stretch) {
      const element = this.elements.get(item.id);
      element?.classList.toggle("in-fold", folded.has(item));
      if (element) element.hidden = folded.has(item) && !isOpen;
    }
    const first = stretch.flatMap((item) => (folded.has(item) ? (this.elements.get(item.id) ?? []) : []))[0];
    let line = this.lines.get(key);
    if (first) line ??= h("button.fold", { onclick: () => this.toggle(key) }, icon("chevron"), h("span"));
    else line?.remove();
    this.lines.set(key, first && line);
    if (first && line) {
      line.setAttribute("aria-expanded", String(isOpen));
      line.lastElementChild?.replaceChildren(words);
      if (line.nextElementSibling !== first) first.before(line);
    }
    showGroups(stretch.flatMap(({ id }) => this.elements.get(id)?.parentElement ?? []));
  }

  private toggle(key: string): void {
    const [line, stretch] = [this.lines.get(key), this.stretches.get(key)];
    if (!line || !stretch) return;
    const isOpen = !this.isOpen(stretch);
    const mine = new Set(stretch.map(({ id }) => this.remembered(id)));
    const others = (this.memory.now.openFolds ?? []).filter((each) => !mine.has(each)).slice(1 - MAX_REMEMBERED);
    // Whichever earlier items are loaded later, the last one stays in the same stretch.
    this.memory.keep({ openFolds: isOpen ? [...others, this.remembered(stretch.at(-1)?.id ?? key)] : others });
    line.setAttribute("aria-expanded", String(isOpen));
    const elements = stretch.flatMap(({ id }) => this.elements.get(id) ?? []);
    for (const each of elements) if (each.classList.contains("in-fold")) each.hidden = !isOpen;
    showGroups(elements.flatMap(({ parentElement }) => parentElement ?? []));
    this.onToggle();
  }

  private isOpen(stretch: Stretch): boolean {
    const { openFolds = [] } = this.memory.now;
    return openFolds.length > 0 && stretch.some(({ id }) => openFolds.includes(this.remembered(id)));
  }

  private remembered(itemId: string): string {
    return `${this.conversationId} ${itemId}`;
  }
}

/** A group of which nothing is shown would leave a gap. */
function showGroups(groups: readonly HTMLElement[]): void {
  for (const group of new Set(groups))
    group.hidden = [...group.children].every((each) => each instanceof HTMLElement && each.hidden);
}

function stretchesOf(items: Iterable<Shown>): Stretch[] {
  const stretches: [Shown, ...Shown[]][] = [];
  for (const item of items) {
    const last = stretches.at(-1);
    if (last && item.kind !== "userMessage") last.push(item);
    else stretches.push([item]);
  }
  return stretches;
}

function foldOf(
  stretch: Stretch,
  { isLast, isBusy }: { isLast: boolean; isBusy: boolean },
): { folded: ReadonlySet<Shown>; words: string } {
  const steps = stretch.filter(isStep);
  const afterSteps = stretch.findLastIndex(isStep) + 1;
  const answer = stretch.findIndex((item, n) => n >= afterSteps && isAnswer(item));
  const isDone = !isBusy && (answer >= 0 || !isLast);
  const firstOpen = steps.at(-N_OPEN);
  const doneUntil = answer < 0 ? stretch.length : answer;
  const end = isDone ? doneUntil : firstOpen ? stretch.indexOf(firstOpen) : 0;
  const folded = new Set(stretch.slice(0, end).filter(isFoldable));
  const nFolded = steps.filter((step) => folded.has(step)).length;
  if (nFolded < MIN_FOLDED) return { folded: new Set(), words: "" };
  const words = isDone
    ? doneWords(stretch, steps)
    : formatCount(nSteps(steps.filter((step) => folded.has(step))), "earlier step");
  return { folded, words };
}

/** As in "Worked 45 s · 6 steps · 3 files". */
function doneWords(stretch: Stretch, steps: readonly Shown[]): string {
  const times = stretch.flatMap((item) => (isEnd(item) ? [] : [item.startedAt, item.endedAt]));
  const [begun, ended] = [times.find(Boolean), times.findLast(Boolean)].map((time) => Date.parse(time ?? ""));
  const seconds = Math.max(1, Math.round(((ended ?? 0) - (begun ?? 0)) / 1000)) || 1;
  const time = seconds < 60 ? `${seconds} s` : formatDuration(seconds * 1000);
  const changes = stretch.find((item) => item.kind === "changes");
  const files = changes ? ` · ${formatCount(changes.files.length, "file")}` : "";
  return `Worked ${time} · ${formatCount(nSteps(steps), "step")}${files}`;
}

/** A step is one answer of the model with all of its tool calls. */
function nSteps(rows: readonly Shown[]): number {
  return new Set(rows.map((row) => ("call" in row ? row.call.batch : row.id))).size;
}

/** Whether the agent did something there that is a row of its own; what it asks is part of the talk. */
function isStep(item: Shown): boolean {
  if (item.kind === "subagent") return true;
  return "tool" in item && item.kind !== "plan" && !["ask", "delegate", "finish"].includes(item.tool);
}

function isAnswer(item: Shown): boolean {
  if (item.kind === "agentMessage") return item.text !== "";
  return "tool" in item && item.tool === "finish" && item.status === "completed";
}

function isFoldable(item: Shown): boolean {
  if (isEnd(item) || !SETTLED.includes(item.status)) return false;
  if (item.kind === "notice") return item.severity === "info";
  return item.kind !== "userMessage" && !("tool" in item && item.tool === "ask");
}
