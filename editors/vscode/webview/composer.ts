/** The input: text, attachments, and what sending means while the agent works. */

import type { PanelMemory } from "../src/messages";
import type { Part } from "../src/protocol";
import { part as partView } from "./cards";
import { h, icon } from "./dom";
import { Mentions } from "./mentions";

export type Delivery = "auto" | "queue";
export interface ComposerActions {
  send: (content: Part[], delivery: Delivery) => Promise<void>;
  stop: () => void;
  draft: (memory: Pick<PanelMemory, "draft">) => void;
  lastMessages: () => string[];
}

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

export class Composer {
  readonly element: HTMLElement;
  private readonly input = h("textarea.input", { rows: 1, "aria-label": "Message to the agent" });
  private readonly chips = h("div.chips");
  private readonly stopButton: HTMLButtonElement;
  private readonly sendButton: HTMLButtonElement;
  private readonly queueButton: HTMLButtonElement;
  private readonly mentions: Mentions;
  private attached: Part[] = [];
  private isBusy = false;
  private isSending = false;
  /** How far back in the earlier messages the input is; 0 is the draft. */
  private back = 0;

  constructor(private readonly actions: ComposerActions) {
    this.stopButton = h("button.round.stop", { type: "button", title: "Stop (Escape)", "aria-label": "Stop", onclick: () => actions.stop() }, icon("stop"));
    this.queueButton = h("button.quiet.queue", { type: "button", title: "Send after this turn (Alt+Enter)", onclick: () => void this.send("queue") }, "Queue");
    this.sendButton = h("button.round.send", { type: "submit", "aria-label": "Send" }, icon("send"));
    this.mentions = new Mentions(this.input, (part) => this.attach(part));
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      void this.send("auto");
    };
    this.element = h("form.composer", { onsubmit: submit, ondrop: (event: DragEvent) => this.onFiles(event, event.dataTransfer) },
      this.mentions.element, this.chips,
      h("div.bar", {}, this.input, this.queueButton, this.stopButton, this.sendButton));
    this.input.addEventListener("input", () => this.onInput());
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    this.input.addEventListener("paste", (event) => this.onFiles(event, event.clipboardData));
    window.addEventListener("resize", () => this.update());
    this.setBusy(false, false);
  }

  setBusy(isBusy: boolean, isReadOnly: boolean): void {
    this.isBusy = isBusy;
    this.input.disabled = isReadOnly;
    this.input.placeholder = isReadOnly ? "Open in another window" : isBusy ? "Steer the agent…" : "Ask the agent… @ for files";
    this.stopButton.hidden = !isBusy;
    this.update();
  }

  /** The draft of before, unless the user has typed already. */
  restore(draft: string): void {
    if (this.input.value === "") this.setText(draft);
  }

  private setText(text: string): void {
    this.input.value = text;
    this.update();
  }

  attach(part: Part): void {
    this.attached.push(part);
    this.update();
    this.focus();
  }

  focus(): void {
    this.input.focus();
  }

  private async send(delivery: Delivery): Promise<void> {
    const text = this.input.value.trim();
    const content: Part[] = [...(text === "" ? [] : [{ type: "text" as const, text }]), ...this.attached];
    if (content.length === 0 || this.isSending) return;
    this.isSending = true;
    const { value } = this.input;
    const { attached } = this;
    this.clear();
    try {
      await this.actions.send(content, delivery);
    } catch {
      // What could not be sent returns to the input, before whatever was typed since.
      this.attached = [...attached, ...this.attached];
      this.setText(value + this.input.value);
    }
    this.isSending = false;
    this.actions.draft({ draft: this.input.value });
  }

  private clear(): void {
    this.attached = [];
    this.back = 0;
    this.setText("");
  }

  private onInput(): void {
    this.back = 0;
    this.update();
    this.actions.draft({ draft: this.input.value });
    void this.mentions.update();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.isComposing) return;
    const isForList = !event.shiftKey && this.mentions.onKey(event.key);
    if (isForList || this.onOwnKey(event)) event.preventDefault();
  }

  private onOwnKey(event: KeyboardEvent): boolean {
    if (event.key === "Enter" && !event.shiftKey) {
      void this.send(event.altKey ? "queue" : "auto");
      return true;
    }
    if (event.key === "Escape" && this.isBusy) {
      this.actions.stop();
      return true;
    }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") return this.recall(event.key === "ArrowUp" ? 1 : -1);
    return false;
  }

  /** Earlier messages, from an empty input or from another earlier message. */
  private recall(step: number): boolean {
    const messages = this.actions.lastMessages();
    if (this.back === 0 && (this.input.value !== "" || step < 0)) return false;
    this.back = Math.min(messages.length, this.back + step);
    this.setText(this.back === 0 ? "" : (messages.at(-this.back) ?? ""));
    return true;
  }

  private onFiles(event: Event, data: DataTransfer | null): void {
    const images = [...(data?.files ?? [])].filter((file) => IMAGE.test(file.type));
    if (images.length === 0) return;
    event.preventDefault();
    for (const file of images) {
      const reader = new FileReader();
      reader.onload = () => this.attach({ type: "image", mimeType: file.type, data: String(reader.result).split(",")[1] ?? "" });
      reader.readAsDataURL(file);
    }
  }

  private update(): void {
    const isEmpty = this.input.value.trim() === "" && this.attached.length === 0;
    this.sendButton.disabled = isEmpty;
    this.sendButton.title = this.isBusy ? "Steer: reaches the agent before its next step (Enter)" : "Send (Enter)";
    this.queueButton.hidden = !this.isBusy || isEmpty;
    this.chips.replaceChildren(...this.attached.map((part) => this.chip(part)));
    // The height follows the text up to the maximum of the style sheet.
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight}px`;
  }

  private chip(part: Part): HTMLElement {
    const remove = () => {
      this.attached = this.attached.filter((each) => each !== part);
      this.update();
    };
    return h("span.attached", {}, partView(part),
      h("button.quiet", { type: "button", "aria-label": "Remove", onclick: remove }, icon("cross")));
  }
}
