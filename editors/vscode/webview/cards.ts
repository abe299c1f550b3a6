/** One element per item of the transcript. */

import type { ToolItem } from "../src/messages";
import type {
  CondensationItem,
  FileChange,
  Item,
  NoticeItem,
  Part,
  Range,
  SubagentItem,
} from "oh-daemon-client/protocol";
import { compact, formatDuration, formatLines, unknownText } from "../src/words";
import { color } from "./colors";
import { diffRows, facts, fileDiff, fileLink, fileName, middleCut } from "./diff";
import { h, type IconName, icon } from "./dom";
import { type ImageSource, imageView } from "./images";
import { hasEditor, run } from "./host";
import { markdown, updateMarkdown } from "./markdown";

export const STATUS: Record<Item["status"], { icon: IconName; label: string }> = {
  pending: { icon: "circle", label: "pending" },
  awaitingApproval: { icon: "hand", label: "waits for approval" },
  running: { icon: "arc", label: "running" },
  completed: { icon: "check", label: "done" },
  failed: { icon: "cross", label: "failed" },
  rejected: { icon: "minus", label: "rejected" },
  cancelled: { icon: "minus", label: "cancelled" },
};
const REASONS: Record<string, string> = {
  outcomeUnknown: "The daemon ended meanwhile, so it is unknown whether this happened.",
  interrupted: "interrupted",
  superseded: "your message came instead",
};

const LONG_CHARS = 3000;
const LONG_LINES = 40;

/** Returns the element, or undefined for an item that is not shown. */
export function card(item: Exclude<Item, SubagentItem>, conversationId: string): HTMLElement | undefined {
  if (item.reason === "retried") return undefined;
  switch (item.kind) {
    case "userMessage":
      return h(
        "article.user",
        { "aria-label": "You", "data-status": item.status },
        h("div.bubble", {}, ...item.content.map((each) => part(each, conversationId))),
      );
    case "agentMessage":
      if (item.reason === "outcomeUnknown") return cutAnswer(item.text);
      return item.text === "" ? undefined : h("article.agent", { "aria-label": "Agent" }, markdown(item.text));
    case "reasoning":
      return item.text === "" ? undefined : folded(thought(item), item.status, markdown(item.text));
    case "notice":
      return item.skill === undefined
        ? noticeCard(item)
        : h("p.divider", {}, icon("book"), ` Used the skill ${item.skill}`);
    case "condensation":
      return condensation(item);
    default:
      // A later release's kind is neither of the types above nor a tool call.
      return "tool" in item ? callCard(item, conversationId) : unknownCard(item);
  }
}

function unknownCard(item: { kind: string; title?: string }): HTMLElement {
  return h("p.divider", {}, [item.title, unknownText(item.kind)].filter(Boolean).join(" "));
}
/** What was there of an answer when the daemon was killed; it may be nothing. */
function cutAnswer(text: string): HTMLElement {
  const mark = h("p.divider", {}, "Cut off: the daemon ended while it wrote this answer");
  return h("article.agent", { "aria-label": "Agent" }, markdown(text), mark);
}

/** Some tool calls have cards of their own, some only while they succeed. */
function callCard(item: ToolItem, conversationId: string): HTMLElement | undefined {
  const isWell = ["pending", "running", "completed"].includes(item.status);
  if (item.tool === "ask") return questionItem(item);
  // The plan is shown above the input.
  if (item.kind === "plan" && isWell && item.entries.length > 0) return undefined;
  // The cards of its sub-agents follow and take its place.
  if (item.tool === "delegate" && isWell) return undefined;
  if (item.tool === "finish" && item.status === "completed")
    return h("article.agent", { "aria-label": "Agent" }, markdown(output(item)));
  return toolCard(item, conversationId);
}

/** Shows a question of the agent like its other text, with the outcome. */
function questionItem(item: ToolItem): HTMLElement | undefined {
  const { question } = item.args;
  // A pending question is shown above the input.
  if (typeof question !== "string" || item.status === "pending" || item.status === "running") return undefined;
  const asked = h("article.agent", { "aria-label": "Question of the agent" }, markdown(question));
  const isAnswered = item.status === "completed" && item.reason === undefined;
  return h(
    "div.asked",
    {},
    asked,
    isAnswered
      ? h("article.user", { "aria-label": "Your answer" }, h("div.bubble", {}, h("div.text", {}, output(item))))
      : h("p.divider", {}, output(item)),
  );
}

export function noticeCard({
  severity,
  title,
  description,
}: Pick<NoticeItem, "severity" | "title" | "description">): HTMLElement {
  if (description === undefined) return h("div.notice", { "data-severity": severity }, ...withCode(title));
  // Some titles are the beginning of a sentence that the description completes.
  const isWhole = /[.:,]$/.test(title);
  return h(
    "div.notice",
    { "data-severity": severity },
    h("strong", {}, isWhole ? title : `${title}:`),
    " ",
    ...withCode(description),
  );
}

/** Shows text between backticks as code. */
function withCode(text: string): (string | HTMLElement)[] {
  return text.split(/`([^`]+)`/).map((piece, i) => (i % 2 === 1 ? h("code", {}, piece) : piece));
}

export function part(value: Part, conversationId = ""): HTMLElement {
  switch (value.type) {
    case "text":
      return isLong(value.text)
        ? h("div.text.long", { tabindex: 0, role: "group", "aria-label": "Long text" }, value.text)
        : h("div.text", {}, value.text);
    case "image":
      return imageView(value, conversationId);
    case "document":
      return h("span.chip", { title: "A PDF" }, icon("file"), value.name ?? "PDF");
    case "selection":
      return fileChip(
        value.uri,
        `${fileName(value.uri)}:${formatLines(value.range.start.line, value.range.end.line)}`,
        value.range,
      );
    case "resourceLink":
      return fileChip(value.uri, value.name ?? fileName(value.uri), value.range);
    case "skill":
      return h(
        "span.chip",
        { title: `The skill ${value.name}` },
        icon("book"),
        [value.name, value.args].filter(Boolean).join(" "),
      );
    case "command":
      return h("div.text", {}, h("code", {}, `/${value.name}`), value.args ? ` ${value.args}` : "");
    case "resource":
    case "diagnostics":
      return fileChip(value.uri, fileName(value.uri));
    default:
      return h("span.chip", {}, unknownText((value as { type: string }).type));
  }
}

/** A pasted log scrolls by itself, or else what comes before it would be screens away. */
function isLong(text: string): boolean {
  return text.length > LONG_CHARS || text.split("\n", LONG_LINES).length === LONG_LINES;
}

/** Returns the text of a message as it was typed, without attachments. */
export function textOf(content: readonly Part[]): string {
  return content
    .map((each) => {
      if (each.type === "command") return `/${each.name} ${each.args ?? ""}`.trim();
      return each.type === "text" ? each.text : "";
    })
    .join("")
    .trim();
}

/** Files and conversation logs can be opened; any other resource is only named. */
function fileChip(uri: string, label: string, range?: Range): HTMLElement {
  if (!hasEditor || !/^(file|oh-log):/.test(uri)) return h("span.chip", { title: uri }, icon("file"), label);
  const open = () => run("host/openFile", { uri, ...(range && { range }) });
  return h("button.chip", { type: "button", title: uri, onclick: open }, icon("file"), label);
}

function toolCard(item: ToolItem, conversationId: string): HTMLElement {
  const edit = onlyChange(item);
  if (edit) return editCard(item, edit, conversationId);
  const status = STATUS[item.status];
  const isFailed = item.status === "failed" || (exitCode(item) ?? 0) !== 0;
  const head = [
    h(
      "span.state",
      { role: "img", "aria-label": isFailed ? "failed" : status.label },
      icon(isFailed ? "cross" : status.icon),
    ),
    item.kind === "command"
      ? h("code.title", { title: item.command }, item.command)
      : h("span.title", {}, ...breakable(item.title)),
    h("span.meta", {}, meta(item)),
    item.kind === "command" && item.status === "running" && elapsed(item),
  ];
  const body = toolBody(item, conversationId);
  const attributes = {
    "data-kind": item.kind,
    "data-status": isFailed ? "failed" : item.status,
    "aria-label": item.title,
  };
  if (item.kind === "toolCall" && body.length > 0) {
    return h("details.card", attributes, h("summary.card-head", {}, ...head), ...body);
  }
  return h("article.card", attributes, h("div.card-head", {}, ...head), ...body);
}

/** The header of the card names the file, so the diff needs no header of its own. */
function editCard(item: ToolItem, change: FileChange, conversationId: string): HTMLElement {
  const status = STATUS[item.status];
  const attributes = { "data-kind": item.kind, "data-status": item.status, "aria-label": item.title };
  return h(
    "article.card",
    attributes,
    h(
      "div.card-head",
      {},
      h("span.state", { role: "img", "aria-label": status.label }, icon(status.icon)),
      h("span.title", {}, fileLink(change.uri, middleCut(item.title))),
      h("span.meta", {}, meta(item)),
      ...facts(change, () => run("host/openDone", { conversationId, change })),
    ),
    diffRows(change),
    ...notes(item),
  );
}

function onlyChange(item: ToolItem): FileChange | undefined {
  const isShown = item.kind === "fileChange" && item.changes.length === 1 && item.status !== "failed";
  return isShown ? item.changes[0] : undefined;
}

function notes(item: ToolItem): HTMLElement[] {
  const reason = item.reason === undefined ? undefined : REASONS[item.reason];
  // The arguments have `hunks` only if the user left some out.
  const isPart = item.kind === "fileChange" && item.status === "completed" && "hunks" in item.args;
  const isShown = item.kind === "fileChange" && item.changes.length > 0;
  const refusal = isShown && item.status === "rejected" ? output(item) : "";
  const words = reason ?? (isPart ? "Without the changes that you left out" : refusal || undefined);
  return words === undefined ? [] : [h("p.note", {}, words)];
}

function toolBody(item: ToolItem, conversationId: string): HTMLElement[] {
  const note = notes(item);
  if (item.kind === "fileChange" && item.changes.length && item.status !== "failed") {
    return [
      ...item.changes.map((change) => fileDiff(change, () => run("host/openDone", { conversationId, change }))),
      ...note,
    ];
  }
  const text = output(item);
  const pre = h("pre.output", { tabindex: 0, role: "group", "aria-label": "Output" }, ...numbered(item, text));
  const { outputRef } = item;
  const whole =
    hasEditor &&
    outputRef !== undefined &&
    h(
      "button.quiet",
      { onclick: () => run("host/openOutput", { conversationId, outputRef }) },
      "Open the whole output",
    );
  const images = item.content.filter(isImage).map((image) => h("div.images", {}, imageView(image, conversationId)));
  const applied = item.kind === "command" && item.status === "completed" ? (item.changes ?? []) : [];
  const diffs = applied.map((change) => fileDiff(change, () => run("host/openDone", { conversationId, change })));
  return [...(text === "" ? [] : [pre]), ...images, ...(whole ? [whole] : []), ...diffs, ...note];
}

/** The lines of a file have numbers and colours as in the editor. */
function numbered(item: ToolItem, text: string): (string | HTMLElement)[] {
  const uri = item.tool === "edit" && item.args.command === "view" ? item.locations[0]?.uri : undefined;
  if (uri === undefined) return [text];
  const rows = text.split("\n").map((row) => {
    const [, number, line = row] = /^ *(\d+)\t(.*)$/.exec(row) ?? [];
    return { number, line, element: h("span", { "data-line": number }, `${line}\n`) };
  });
  const code = h("span.numbered", {}, ...rows.map(({ element }) => element));
  code.style.setProperty("--digits", String(rows.findLast(({ number }) => number)?.number?.length ?? 1));
  const lines = rows.filter(({ number }) => number !== undefined);
  color(code, {
    fileName: fileName(uri),
    texts: [lines.map(({ element, line }) => ({ element, from: 0, text: line }))],
  });
  return [code];
}

/** Data enters here: the content blocks of a result have MCP's form. */
function isImage(block: Record<string, unknown>): block is Record<string, unknown> & ImageSource {
  return block.type === "image" && typeof block.mimeType === "string";
}

/** MCP marks what only the model should read. */
function isForPeople({ annotations }: Record<string, unknown>): boolean {
  const { audience } = (annotations ?? {}) as { audience?: readonly string[] };
  return audience?.includes("user") ?? true;
}

/** Drops the line of a command's text that repeats the header of the card. */
function output(item: ToolItem): string {
  const shown = item.content.filter(isForPeople);
  const parts = shown.flatMap(({ text: part }) => (typeof part === "string" ? [part] : []));
  const texts = item.kind === "command" ? parts.map((part) => part.replace(/\n?\[exit code [^\n]*\]\s*$/, "")) : parts;
  return texts.filter(Boolean).join("\n").trimEnd();
}

function meta(item: ToolItem): string {
  const duration = item.durationMs === undefined ? "" : formatDuration(item.durationMs);
  const code = exitCode(item);
  const exit = code === undefined ? "" : `exit ${code}`;
  const ended = ["rejected", "cancelled", "awaitingApproval"].includes(item.status) ? STATUS[item.status].label : "";
  return [ended, exit, item.kind === "command" ? duration : ""].filter(Boolean).join(" · ");
}

/** Shows how long the command has been running; `tick` updates it. */
function elapsed({ startedAt }: ToolItem): HTMLElement {
  const element = h("span.elapsed", { "data-since": Date.parse(startedAt ?? "") || Date.now() });
  tick(element);
  return element;
}

export function tick(element: HTMLElement): void {
  const seconds = Math.floor((Date.now() - Number(element.dataset.since)) / 1000);
  element.textContent = seconds < 1 ? "" : seconds < 60 ? `${seconds} s` : formatDuration(seconds * 1000);
}

function exitCode(item: ToolItem): number | undefined {
  return item.kind === "command" ? item.exitCode : undefined;
}

/** Lets a long path break after its slashes first. */
function breakable(text: string): (string | HTMLElement)[] {
  return text.split(/(?<=\/)/).flatMap((piece) => [piece, h("wbr")]);
}

function folded(title: string, status: Item["status"], body: HTMLElement): HTMLElement {
  return h("details.reasoning", { open: status === "running", "data-status": status }, h("summary", {}, title), body);
}

function thought({ status, startedAt, endedAt }: Item): string {
  if (status === "running") return "Thinking…";
  const ms = startedAt && endedAt ? Date.parse(endedAt) - Date.parse(startedAt) : 0;
  return ms < 1000 ? "Thought" : `Thought for ${formatDuration(ms)}`;
}

/** Updates the text of an existing card. Returns false when the card must be made again. */
export function updateText(old: HTMLElement, item: Item): boolean {
  const shown = old.querySelector<HTMLElement>(":scope > .markdown");
  if (!shown || item.reason === "retried" || !("text" in item) || item.text === "") return false;
  updateMarkdown(shown, item.text);
  if (item.kind === "reasoning" && item.status !== "running") {
    // Collapse it only once: a user who opens it afterwards wants to read it.
    if (old.dataset.status === "running") old.removeAttribute("open");
    old.dataset.status = item.status;
    old.querySelector("summary")?.replaceChildren(thought(item));
  }
  return true;
}

function condensation(item: CondensationItem): HTMLElement {
  if (item.status === "running") return h("p.divider", {}, "Summarizing earlier messages…");
  if (item.keepFrom === undefined)
    return h("p.divider", {}, item.reason === "nothingToCondense" ? "Nothing to summarize yet" : "Not summarized");
  const without = item.limits === undefined ? "Earlier messages left out" : "Long output cut";
  const what = item.summary === undefined ? without : "Summarized";
  const words = `${what} for the model: ${compact(item.tokensBefore)} to ${compact(item.tokensAfter)} tokens`;
  return item.summary === undefined ? h("p.divider", {}, words) : folded(words, item.status, markdown(item.summary));
}
