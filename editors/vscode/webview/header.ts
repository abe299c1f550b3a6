/** The panel's header: the conversation, its status, and the one control that applies. */

import type { DaemonState } from "../src/messages";
import type { ConversationInfo } from "oh-daemon-client/protocol";
import { h, icon, visible } from "./dom";
import type { Store } from "oh-daemon-client/store";

const STATUS: Record<string, string> = {
  running: "Working",
  waiting: "Waits for you",
  pausing: "Pausing after this step",
  interrupting: "Stopping",
  paused: "Paused",
  error: "Stopped by an error",
  finished: "Done",
  closed: "Closed",
  idle: "",
};
const BEFORE: Partial<Record<DaemonState["kind"], string>> = { starting: "Starting", installing: "Installing" };
const PAUSED: Record<string, string> = {
  budget: "Paused at the step, cost or time limit",
  network: "Paused: the model cannot be reached",
  rateLimit: "Paused: the provider asks to wait",
  storage: "Paused: the log cannot be written",
  daemonRestarted: "Paused: the daemon was restarted",
  stuck: "Stopped: the agent went in circles",
};

export interface HeaderActions {
  back: () => void;
  pause: () => void;
  resume: () => void;
}

export class Header {
  readonly element: HTMLElement;
  private readonly title = h("h1");
  private readonly badge = h(
    "span.badge",
    { title: "Nothing is changed in the folder until you apply it" },
    "Isolated",
  );
  private readonly status = h("span.status", { role: "status" });
  private readonly controls = h("span.controls");

  constructor(private readonly actions: HeaderActions) {
    this.element = h("header", {}, this.title, this.badge, this.status, this.controls);
  }

  draw(store: Store | undefined, daemon: DaemonState, isList: boolean, startsIsolated: boolean): void {
    this.badge.hidden = isList || !(store ? store.info.isolated : startsIsolated);
    const title = isList ? "Conversations" : visible(store?.info.title ?? "New conversation");
    this.title.textContent = title;
    this.title.title = title;
    const text = isList ? "" : (BEFORE[daemon.kind] ?? words(store?.info));
    if (this.status.textContent !== text) this.status.textContent = text;
    this.status.title = text;
    this.status.dataset.status = store?.info.status ?? "";
    const wanted = isList ? "back" : controlFor(store);
    if (this.controls.dataset.shown === wanted) return;
    this.controls.dataset.shown = wanted;
    this.controls.replaceChildren(...this.buttons(wanted));
  }

  private buttons(wanted: string): HTMLElement[] {
    const { back, pause, resume } = this.actions;
    const buttons = {
      back: () =>
        h("button.quiet", { onclick: back, title: "Back to the conversation (Escape)" }, icon("back"), "Back"),
      pause: () => h("button.quiet", { onclick: pause, title: "Pause after this step" }, icon("pause"), "Pause"),
      resume: () => h("button.primary", { onclick: resume, title: "Go on" }, icon("play"), "Resume"),
    };
    return wanted in buttons ? [buttons[wanted as keyof typeof buttons]()] : [];
  }
}

function words(info: ConversationInfo | undefined): string {
  if (!info) return "";
  const paused = info.status === "paused" ? PAUSED[info.statusReason ?? ""] : undefined;
  return paused ?? STATUS[info.status] ?? info.status;
}

function controlFor(store: Store | undefined): string {
  if (!store || store.isReadOnly) return "";
  return store.info.status === "running" ? "pause" : store.info.status === "paused" ? "resume" : "";
}
