/** The input: text, attachments, and what sending means while the agent works. */

import type { Looking, PanelMemory, Suggestion } from "../src/messages";
import type { Part } from "oh-daemon-client/protocol";
import { part as partView, textOf } from "./cards";
import type { SlashCommands } from "./commands";
import { Completion, type Sign } from "./completion";
import { h, icon } from "./dom";
import { History } from "./history";
import { uploaded } from "./images";
import { call, report } from "./host";
import type { Store } from "oh-daemon-client/store";

export type Delivery = "auto" | "queue";
export interface ComposerActions {
  send: (content: Part[], delivery: Delivery) => Promise<void>;
  stop: () => void;
  draft: (memory: Pick<PanelMemory, "draft" | "attached">) => void;
  lastMessages: () => string[];
  commands: SlashCommands;
}

const MENTIONED = ["file", "folder", "symbol", "conversation", "changes", "page", "skill"] as const;
const MAX_MENTIONS = 9;
const IMAGE = /^image\/(png|jpeg|gif|webp)$/;
const PDF = "application/pdf";
/** The daemon's limit. */
const MAX_FILE_BYTES = 20 << 20;
const MAX_KEPT_CHARS = 50_000;
/** The data type of entries dragged from the explorer and of editor tabs. */
const URI_LIST = "text/uri-list";

export class Composer {
  readonly element: HTMLElement;
  private readonly input = h("textarea.input", { rows: 1, "aria-label": "Message to the agent" });
  private readonly chips = h("div.chips");
  private readonly stopButton: HTMLButtonElement;
  private readonly sendButton: HTMLButtonElement;
  private readonly queueButton: HTMLButtonElement;
  private readonly completion: Completion;
  private readonly history: History;
  private attached: Part[] = [];
  private looking: HTMLElement | undefined;
  private isBusy = false;
  private sending = Promise.resolve();
  private shown = "";

  constructor(private readonly actions: ComposerActions) {
    this.stopButton = h(
      "button.round.stop",
      { type: "button", title: "Stop (Escape)", "aria-label": "Stop", onclick: () => actions.stop() },
      icon("stop"),
    );
    this.queueButton = h(
      "button.quiet.queue",
      { type: "button", title: "Send after this turn (Alt+Enter)", onclick: () => this.send("queue") },
      "Queue",
    );
    this.sendButton = h("button.round.send", { type: "submit", "aria-label": "Send" }, icon("send"));
    this.history = new History(this.input, actions.lastMessages);
    this.completion = new Completion(this.input, {
      find: (sign, query) => this.find(sign, query),
      pick: (each) => this.pick(each),
    });
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      this.send("auto");
    };
    this.element = h(
      "form.composer",
      {
        onsubmit: submit,
        ondragover: (event: DragEvent) => event.preventDefault(),
        ondrop: (event: DragEvent) => this.onFiles(event, event.dataTransfer),
      },
      this.completion.element,
      this.chips,
      h("div.bar", {}, this.input, this.queueButton, this.stopButton, this.sendButton),
    );
    this.input.addEventListener("input", () => this.onInput());
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    this.input.addEventListener("paste", (event) => this.onFiles(event, event.clipboardData));
    window.addEventListener("resize", () => this.update());
    this.setBusy(undefined);
  }

  setBusy(store: Pick<Store, "isBusy" | "isReadOnly" | "isAsked"> | undefined): void {
    // This runs with every event; measuring the input each time would lay out the whole transcript.
    const shown = [store?.isBusy, store?.isReadOnly, store?.isAsked].join();
    if (shown === this.shown) return;
    this.shown = shown;
    this.isBusy = store?.isBusy ?? false;
    this.element.hidden = store?.isReadOnly ?? false;
    this.input.placeholder = placeholder(store);
    this.stopButton.hidden = !this.isBusy;
    this.update();
  }

  /** Shows what goes along with each message. */
  setLooking(looking: Looking | undefined): void {
    // This runs with every selection: only its own chip is drawn anew, and nothing is measured.
    this.looking?.remove();
    this.looking = looking?.isShared ? lookingChip(looking) : undefined;
    if (this.looking) this.chips.prepend(this.looking);
  }

  /** Restores the remembered draft, unless the user has already typed something. */
  restore({ draft = "", attached = [] }: PanelMemory): void {
    if (this.input.value !== "" || this.attached.length > 0) return;
    this.attached = [...attached];
    this.setText(draft);
  }

  /** Puts an earlier message into the input, behind what is there, to be changed and sent again. */
  take(content: readonly Part[]): void {
    this.attached = [...this.attached, ...content.filter(({ type }) => type !== "text" && type !== "command")];
    this.setText([this.input.value, textOf(content)].filter(Boolean).join("\n"));
    this.keepDraft();
    this.focus();
  }

  private setText(text: string): void {
    this.input.value = text;
    this.update();
  }

  attach(part: Part): void {
    this.attached.push(part);
    this.update();
    this.keepDraft();
    this.focus();
  }

  focus(): void {
    this.input.focus();
  }

  /** Sends messages one after the other: the second of a new conversation needs the first. */
  private send(delivery: Delivery): void {
    const { value, attached } = { value: this.input.value, attached: this.attached };
    const text = value.trim();
    if (text === "" && attached.length === 0) return;
    this.clear();
    if (this.actions.commands.run(text)) return this.keepDraft();
    // Until the daemon has the message, it stays the remembered draft in case the window is reloaded.
    this.sending = this.sending.then(() => this.deliver(value, attached, delivery));
  }

  private async deliver(value: string, attached: Part[], delivery: Delivery): Promise<void> {
    try {
      const text = value.trim();
      const written = text === "" ? [] : [await this.actions.commands.part(text)];
      const sent: Part[] = [];
      for (const part of attached) sent.push(await uploaded(part));
      await this.actions.send([...written, ...sent], delivery);
    } catch (error) {
      report(error);
      // A message that could not be sent returns to the input, before whatever was typed since.
      this.attached = [...attached, ...this.attached];
      this.setText(value + this.input.value);
    }
    this.keepDraft();
  }

  /** Remembers the draft without large images: the editor's storage is meant for small values. */
  private keepDraft(): void {
    const kept = this.attached.filter((part) => !("data" in part) || (part.data?.length ?? 0) < MAX_KEPT_CHARS);
    this.actions.draft({ draft: this.input.value, attached: kept });
  }

  private clear(): void {
    this.attached = [];
    this.history.reset();
    this.setText("");
  }

  private onInput(): void {
    this.history.reset();
    this.update();
    this.keepDraft();
    void this.completion.update();
  }

  private onKey(event: KeyboardEvent): void {
    if (event.isComposing) return;
    const isForList = !event.shiftKey && this.completion.onKey(event.key);
    if (isForList || this.onOwnKey(event)) event.preventDefault();
  }

  private onOwnKey(event: KeyboardEvent): boolean {
    if (event.key === "Enter" && !event.shiftKey) {
      this.send(event.altKey ? "queue" : "auto");
      return true;
    }
    if (event.key === "Escape" && this.isBusy) {
      this.actions.stop();
      return true;
    }
    const isHistory = (event.key === "ArrowUp" || event.key === "ArrowDown") && !event.shiftKey;
    const recalled = isHistory ? this.history.recall(event.key) : undefined;
    if (recalled !== undefined) this.setText(recalled);
    return recalled !== undefined;
  }

  private async find(sign: Sign, query: string): Promise<readonly Suggestion[]> {
    if (sign === "/") return this.actions.commands.find(query);
    const [special, found] = await Promise.all([
      call("host/mentions", {}),
      call("context/search", { query, kinds: MENTIONED, limit: MAX_MENTIONS }),
    ]);
    const isMeant = ({ label }: Suggestion) => label.toLowerCase().startsWith(query.toLowerCase());
    return [...special.suggestions.filter(isMeant), ...found.items];
  }

  private pick(suggestion: Suggestion): void {
    if (suggestion.kind === "command" && !this.actions.commands.run(suggestion.label)) {
      // The user types the rest of the command behind it.
      this.input.setRangeText(`${suggestion.label} `, 0, 0, "end");
    }
    if (suggestion.part) this.attach(suggestion.part);
    else if (suggestion.kind === "terminal") {
      call("host/terminalText", {})
        .then(({ part }) => part && this.attach(part))
        .catch(report);
    }
    this.onInput();
  }

  private onFiles(event: Event, data: DataTransfer | null): void {
    const files = [...(data?.files ?? [])].filter((file) => IMAGE.test(file.type) || file.type === PDF);
    const uris =
      files.length > 0
        ? []
        : (data?.getData(URI_LIST) ?? "").split(/\r?\n/).filter((uri) => /^(file|vscode-remote):/.test(uri));
    if (files.length === 0 && uris.length === 0) return;
    event.preventDefault();
    for (const uri of uris)
      this.attach({ type: "resourceLink", uri: uri.replace(/^vscode-remote:\/\/[^/]*/, "file://") });
    for (const file of files) this.attachFile(file);
  }

  private attachFile(file: File): void {
    if (file.size > MAX_FILE_BYTES) {
      report(new Error(`The file ${file.name} is larger than 20 MiB; make it smaller first.`));
      return;
    }
    const reader = new FileReader();
    reader.onload = () => {
      const data = String(reader.result).split(",")[1] ?? "";
      if (file.type === PDF) this.attach({ type: "document", mimeType: PDF, name: file.name, data });
      else this.attach({ type: "image", mimeType: file.type, data });
    };
    reader.readAsDataURL(file);
  }

  private update(): void {
    const isEmpty = this.input.value.trim() === "" && this.attached.length === 0;
    this.sendButton.disabled = isEmpty;
    this.sendButton.title = this.isBusy ? "Steer: reaches the agent before its next step (Enter)" : "Send (Enter)";
    this.queueButton.hidden = !this.isBusy || isEmpty;
    this.chips.replaceChildren(
      ...(this.looking ? [this.looking] : []),
      ...this.attached.map((part) => this.chip(part)),
    );
    // The height follows the text, up to the maximum in the style sheet.
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight}px`;
  }

  private chip(part: Part): HTMLElement {
    const remove = () => {
      this.attached = this.attached.filter((each) => each !== part);
      this.update();
      this.keepDraft();
    };
    return h(
      "span.attached",
      {},
      partView(part),
      h("button.quiet", { type: "button", "aria-label": "Remove", onclick: remove }, icon("cross")),
    );
  }
}

function lookingChip({ name, lines }: Looking): HTMLElement {
  const what = lines === undefined ? name : `${name}:${lines}`;
  const title = `The agent is told that you look at ${what} (setting oh.shareEditor)`;
  return h("span.chip.looking", { title }, icon(lines === undefined ? "file" : "selection"), h("span", {}, what));
}

function placeholder(store: Pick<Store, "isBusy" | "isAsked"> | undefined): string {
  if (store?.isAsked) return "Answer the agent…";
  return store?.isBusy ? "Steer the agent…" : "Ask… @ context, / commands";
}
