/** The scrolling part: one element per item, redrawn when it changed. The end or the reader's place stays in view. */

import type { Branches } from "./branch";
import { card, noticeCard, tick, updateText } from "./cards";
import type { Place } from "../src/messages";
import { dots, h, icon, replace } from "./dom";
import { wordsOf } from "./endings";
import { Folds } from "./folds";
import type { Memory } from "./memory";
import type { Review } from "./review";
import type { Store } from "oh-daemon-client/store";
import { subagentCard } from "./subagent";
import type { Shown } from "oh-daemon-client/turns";

const NEAR_END_PX = 60;
const TICK_MS = 1000;
const PLACE_MS = 150;
/**
 * The most elements in a group of several items: those of 25 commands without output. A group that comes near the view
 * is laid out within one frame, so groups are small; in every frame the browser checks each group, so they are few.
 */
const MAX_ELEMENTS = 175;

export interface TranscriptActions {
  earlier: () => void;
  /** The user has scrolled; the place is undefined when the end is in view. */
  place: (place: Omit<Place, "conversationId"> | undefined) => void;
  open: (conversationId: string) => void;
}

export class Transcript {
  readonly element: HTMLElement;
  private readonly earlier: HTMLButtonElement;
  private readonly end: HTMLButtonElement;
  private readonly page: HTMLElement;
  private readonly log = h("div.log", { role: "log", "aria-label": "Conversation", tabindex: 0 });
  /** Shown while the agent works and no running item shows it. */
  private readonly dots = dots();
  private readonly elements = new Map<string, HTMLElement>();
  /** Items that have nothing to show yet. */
  private readonly blank = new Set<string>();
  /** Durations of items that are still running. */
  private readonly ticking = new Set<HTMLElement>();
  private readonly folds: Folds;
  private store: Store | undefined;
  /** Keeps the end in view, whatever grows or shrinks, until the user scrolls away from it. */
  private isFollowing = true;
  private placeTimer = 0;
  /** Items above it get their real height only when drawn; until the user scrolls, this place is kept in view. */
  private held: Place | undefined;
  private width = 0;

  constructor(
    private readonly review: Review,
    private readonly branches: Branches,
    memory: Memory,
    below: HTMLElement,
    private readonly actions: TranscriptActions,
  ) {
    this.folds = new Folds(this.elements, memory, () => this.look());
    this.earlier = h("button.quiet.earlier", { onclick: actions.earlier }, "Show earlier messages");
    this.page = h("div.page", {}, this.earlier, this.log, this.dots);
    this.end = h(
      "button.to-end",
      { title: "To the newest", "aria-label": "To the newest", hidden: true, onclick: () => this.toEnd() },
      icon("down"),
    );
    this.dots.hidden = true;
    this.element = h("main.scroller", {}, this.page, below, this.end);
    this.element.addEventListener("scroll", () => {
      if (!isInSight()) return;
      const wasFollowing = this.isFollowing;
      this.look();
      if (this.isFollowing && !wasFollowing) this.fold();
      clearTimeout(this.placeTimer);
      this.placeTimer = window.setTimeout(() => isInSight() && this.actions.place(this.place), PLACE_MS);
    });
    const follow = new ResizeObserver(() => {
      if (!isInSight()) return;
      if (this.width !== this.element.offsetWidth) this.onWidth();
      if (this.held) this.showPlace(this.held);
      else if (this.isFollowing) this.toEnd();
    });
    for (const intent of ["wheel", "pointerdown", "keydown"] as const) {
      this.element.addEventListener(intent, () => this.release(), { passive: true });
    }
    for (const each of [this.element, this.page, below]) follow.observe(each);
    setInterval(() => {
      for (const each of this.ticking) {
        if (each.isConnected) tick(each);
        else this.ticking.delete(each);
      }
    }, TICK_MS);
  }

  /** Sees whether the end is in view. */
  private look(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    this.isFollowing = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    this.end.hidden = this.isFollowing;
  }

  private fold(): void {
    const { store } = this;
    if (store)
      this.folds.draw(store.info.id, store.items.values(), { isBusy: store.isBusy, isRead: !this.isFollowing });
  }

  toEnd(): void {
    this.release();
    this.isFollowing = true;
    this.element.scrollTop = this.element.scrollHeight;
  }

  /** Scrolls to where the reader was before; if that item is gone, the end stays in view. */
  showPlace(place: Place): void {
    const element = this.elements.get(place.itemId);
    if (!element) return;
    this.folds.reveal(place.itemId);
    this.held = place;
    this.isFollowing = false;
    this.element.scrollTop += this.topOf(element) - place.offset;
  }

  /** Where lines break elsewhere, the browser keeps the line that is read; a place knows only how far its item begins above. */
  private onWidth(): void {
    if (this.width > 0) this.release();
    this.width = this.element.offsetWidth;
  }

  private release(): void {
    this.held = undefined;
  }

  /** The first item in view, or undefined when the end is. */
  private get place(): Omit<Place, "conversationId"> | undefined {
    if (this.isFollowing) return undefined;
    // Asking for the position of an item in a group out of view would lay that group out.
    const group = this.firstInSight(this.log.querySelectorAll<HTMLElement>(":scope > :not([hidden])"));
    const first = group && this.firstInSight(group.querySelectorAll<HTMLElement>(":scope > [data-item]:not([hidden])"));
    if (!first) return undefined;
    return { itemId: first.dataset.item ?? "", offset: Math.round(this.topOf(first)) };
  }

  private firstInSight<E extends Element>(elements: ArrayLike<E>): E | undefined {
    const { top } = this.element.getBoundingClientRect();
    let [low, high] = [0, elements.length - 1];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const element = elements[middle];
      if (element && element.getBoundingClientRect().bottom <= top) low = middle + 1;
      else high = middle;
    }
    return elements[low];
  }

  private topOf(element: HTMLElement): number {
    return element.getBoundingClientRect().top - this.element.getBoundingClientRect().top;
  }

  /** Redraws everything, for another conversation. */
  reset(store: Store | undefined): void {
    this.elements.clear();
    this.blank.clear();
    this.folds.reset();
    this.log.replaceChildren();
    this.page.hidden = true;
    store?.touchAll();
    this.release();
    this.isFollowing = true;
    // Content that became shorter may fire no scroll event, which would do this.
    this.end.hidden = true;
  }

  draw(store: Store | undefined): void {
    this.earlier.hidden = !store?.hasMore;
    this.store = store;
    if (!store) return;
    const earlier = this.earlierThanShown(store);
    const front = new DocumentFragment();
    let isSame = true;
    for (const id of store.takeChanged())
      isSame = this.drawItem(id, store.items.get(id), store, earlier.has(id) ? front : this.log) && isSame;
    this.log.prepend(front);
    const isBusy = String(store.isBusy);
    if (!isSame || this.log.dataset.busy !== isBusy) this.fold();
    this.log.dataset.busy = isBusy;
    // Not with `:has` in the style sheet, which is evaluated again with every item.
    this.page.hidden = this.elements.size === 0;
    this.dots.hidden = !this.isAwaited(store);
  }

  private isAwaited({ info, items, retry }: Store): boolean {
    const last = this.log.lastElementChild?.lastElementChild;
    const item = last instanceof HTMLElement ? items.get(last.dataset.item ?? "") : undefined;
    const isMoving = item !== undefined && "status" in item && item.status === "running";
    return info.status === "running" && !isMoving && !retry;
  }

  private earlierThanShown(store: Store): ReadonlySet<string> {
    const earlier = new Set<string>();
    if (this.elements.size === 0) return earlier;
    for (const id of store.items.keys()) {
      if (this.elements.has(id)) break;
      earlier.add(id);
    }
    return earlier;
  }

  /** Keeps the view where it is while `add` draws items in front. */
  keepPlace(add: () => void): void {
    this.release();
    const below = this.element.scrollHeight - this.element.scrollTop;
    add();
    this.isFollowing = false;
    this.element.scrollTop = this.element.scrollHeight - below;
  }

  private made(item: Shown, store: Store): HTMLElement | undefined {
    if (item.kind === "changes") return this.review.card(item, store);
    if (item.kind === "ending") return noticeCard({ severity: "info", ...wordsOf(item) });
    if (item.kind === "subagent") return subagentCard(item, store.doingOf(item.conversationId), this.actions.open);
    const made = card(item, store.info.id);
    if (item.kind === "userMessage" && !store.isReadOnly) made?.append(this.branches.buttons(item, store.info.id));
    return made;
  }

  /** Puts the first element of an item that had none before the later items that are there already. */
  private insert(made: HTMLElement, id: string, store: Store): void {
    const ids = [...store.items.keys()];
    const next = ids.slice(ids.indexOf(id)).find((each) => this.elements.has(each));
    if (next === undefined) append(this.log, made);
    else this.elements.get(next)?.before(made);
  }

  /** Draws an item; a new one that precedes all others goes to `place`. Returns whether only its text has grown. */
  private drawItem(id: string, item: Shown | undefined, store: Store, place: ParentNode): boolean {
    const old = this.elements.get(id);
    if (old && item && "text" in item && updateText(old, item)) {
      markBusy(old, item);
      return item.status === "running";
    }
    const made = item && this.made(item, store);
    if (!made) {
      if (old) remove(old);
      this.elements.delete(id);
      this.blank.add(id);
      return false;
    }
    if (old) made.hidden = old.hidden;
    made.classList.toggle("in-fold", old?.classList.contains("in-fold") ?? false);
    if (old instanceof HTMLDetailsElement && made instanceof HTMLDetailsElement) made.open = old.open;
    made.dataset.item = id;
    markBusy(made, item);
    if (old) replace(old, made);
    else if (this.blank.delete(id)) this.insert(made, id, store);
    else append(place, made);
    this.elements.set(id, made);
    const elapsed = made.querySelector<HTMLElement>(".elapsed");
    if (elapsed) this.ticking.add(elapsed);
    return false;
  }
}

/** False while the list of conversations is shown in the transcript's place; its scrolling does not count. */
function isInSight(): boolean {
  return document.body.dataset.view === "chat";
}

/** A screen reader reads an item when it is complete, not each piece of it. */
function markBusy(element: HTMLElement, item: Shown): void {
  element.setAttribute("aria-busy", String("status" in item && item.status === "running"));
}

function append(place: ParentNode, item: HTMLElement): void {
  const last = place.lastElementChild;
  if (last && countElements(last) + countElements(item) <= MAX_ELEMENTS) last.append(item);
  else place.append(h("div.group", {}, item));
}

function countElements(element: Element): number {
  return element.getElementsByTagName("*").length;
}

function remove(item: HTMLElement): void {
  const group = item.parentElement;
  item.remove();
  if (group?.childElementCount === 0) group.remove();
}
