/** The oldest pending approval: exactly what is asked, its risk, and the answers that the daemon offers. */

import type { HalfAnswer } from "../src/messages";
import { unknownText } from "../src/words";
import { canAnswer, countWords, editedSubject, type LeftOut, proposalOf, toggled } from "../src/proposal";
import type { Approval, ApprovalOption, InputRequest, ProjectProgram, Subject } from "oh-daemon-client/protocol";
import { fileDiff, filePath, pathIn } from "./diff";
import { activateOnceSeen, h, icon, visible } from "./dom";
import { run } from "./host";
import { proposalView } from "./proposal";

const KEYS: Record<string, string> = { "allow-once": "Enter", reject: "Backspace" };

export interface Asked {
  folders: readonly string[];
  /** The sub-agent that asks, if any. */
  by: string | undefined;
  half: HalfAnswer;
  keep: (change: HalfAnswer) => void;
}

export function approvalCard(approval: Approval, asked: Asked): HTMLElement {
  const { by, half, keep } = asked;
  const proposal = proposalOf(approval);
  let omitted: LeftOut = half.omitted ?? [];
  let isInert = true;
  const onToggle = (hunk: number) => {
    omitted = toggled(omitted, hunk);
    keep({ omitted });
    view?.show(omitted);
    draw();
  };
  const view = proposal && proposalView(approval.id, proposal, onToggle);
  const subject = view
    ? { element: view.element, edited: () => editedSubject(approval, omitted) }
    : subjectView(approval, asked);
  const answers = answersOf(approval, asked, subject.edited);
  const title = h("h2");
  const draw = () => {
    const chosen = countWords(proposal, omitted);
    const isEmpty = omitted.length === proposal?.hunks.length;
    title.textContent = isEmpty
      ? "Every change is left out"
      : chosen !== undefined
        ? `Make ${chosen}?`
        : headline(approval);
    for (const { option, button } of answers.options) {
      const isPossible = canAnswer(option, proposal, omitted);
      button.disabled = isInert || !isPossible;
      button.hidden = !isPossible && option.scope !== "once";
      button.replaceChildren(...caption(option, chosen));
    }
    // An answer that lasts applies only to a whole edit.
    answers.more.disabled = isInert || chosen !== undefined;
    answers.withNote.disabled = isInert;
  };
  view?.show(omitted);
  draw();
  const card = h(
    "section.approval",
    {
      role: "group",
      "aria-label": `Approval: ${approval.title}`,
      "data-id": approval.id,
      "data-risk": approval.risk,
    },
    h(
      "div.approval-head",
      {},
      icon(approval.risk === "high" ? "danger" : "hand"),
      title,
      h("span.count"),
      h(
        "span.risk",
        { "data-risk": approval.risk },
        approval.risk === "unknown" ? "risk unknown" : `${approval.risk} risk`,
      ),
    ),
    by !== undefined && h("p.why", {}, `Asked by the sub-agent ${by}`),
    ...reasons(approval),
    ...gitRows(approval),
    subject.element,
    approval.description !== undefined &&
      h("p.model-says", {}, h("span", {}, "The agent says: "), approval.description),
    h("div.actions", {}, ...answers.elements, h("div.all")),
  );
  activateOnceSeen(() => {
    isInert = false;
    draw();
  });
  return card;
}

/** Each reason for a high risk has a line of its own, so that none is overlooked. */
function reasons({ reason, risk }: Approval): HTMLElement[] {
  if (reason === undefined) return [];
  if (risk !== "high") return [h("p.why", {}, reason)];
  return [h("ul.why.dangers", {}, ...reason.split("; ").map((each) => h("li", {}, each)))];
}

/** The buttons, a menu with the answers that last, and a field for a note, which is seen once it is asked for. */
interface Answers {
  elements: HTMLElement[];
  options: { option: ApprovalOption; button: HTMLButtonElement }[];
  more: HTMLButtonElement;
  withNote: HTMLButtonElement;
}

function answersOf(approval: Approval, { half, keep }: Asked, edited: SubjectView["edited"]): Answers {
  const note = h("input.note-input", {
    type: "text",
    placeholder: "What should the agent do instead? Enter rejects",
    "aria-label": "Note to the agent",
    hidden: half.note === undefined,
    oninput: () => keep({ note: note.value }),
    onkeydown: (event: KeyboardEvent) => {
      if (event.key === "Enter" && !event.isComposing) reject?.button.click();
      if (event.key !== "Escape") return;
      note.hidden = true;
      reject?.button.focus();
    },
  });
  note.value = half.note ?? "";
  const answer = ({ id, effect }: ApprovalOption) => {
    const editedSubject = effect === "allow" ? edited() : undefined;
    const feedback = note.hidden ? "" : note.value.trim();
    run("approval/respond", {
      approvalId: approval.id,
      digest: approval.digest,
      optionId: id,
      ...(feedback !== "" && { feedback }),
      ...(editedSubject && { editedSubject }),
    });
  };
  const [narrowest] = approval.options;
  // The one that allows least is a click away; trust has no narrow answer, so there each has a button.
  const isSplit = narrowest?.effect === "allow" && (narrowest.scope === "once" || narrowest.scope === "turn");
  const options = approval.options.map((option) => {
    const isWider = isSplit && option.effect === "allow" && option !== narrowest;
    // What may do harm for good is no button that is pressed by habit.
    const isPrimary = option === narrowest && isSplit && approval.risk !== "high";
    const look = isWider ? "button.quiet" : isPrimary ? "button.primary" : "button.secondary";
    const key = KEYS[option.id];
    const button = h(look, {
      "data-option": option.id,
      title: option.label,
      "aria-keyshortcuts": key && `Control+Alt+${key}`,
      onclick: () => answer(option),
    });
    return { option, button, isWider };
  });
  const reject = options.find(({ option }) => option.effect === "reject");
  const wider = options.filter(({ isWider }) => isWider).map(({ button }) => button);
  const menu = h("div.menu", { role: "group", "aria-label": "Answers that last", hidden: true }, ...wider);
  const more = h(
    `button.${approval.risk === "high" ? "secondary" : "primary"}`,
    {
      "data-option": "more",
      "aria-label": "Answers that last",
      title: "Answers that last",
      "aria-expanded": "false",
      onclick: () => unfold(menu.hidden !== false),
    },
    icon("chevron"),
  );
  const unfold = (isOpen: boolean) => {
    menu.hidden = !isOpen;
    more.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) wider.find(({ hidden }) => !hidden)?.focus();
    else more.focus();
  };
  menu.addEventListener("keydown", ({ key }) => key === "Escape" && unfold(false));
  const title = `Reject with a note (${keyWords("Shift+Backspace")})`;
  const withNote = h(
    "button.secondary",
    {
      "data-option": "note",
      "aria-label": title,
      title,
      onclick: () => {
        note.hidden = false;
        note.focus();
      },
    },
    icon("pencil"),
  );
  const others = options.flatMap(({ button, option, isWider }) =>
    isWider || option.effect === "reject" ? [] : [button],
  );
  const groups = [
    ...(wider.length > 0 ? [h("div.split", {}, ...others, more)] : others),
    ...(reject ? [h("div.split", {}, reject.button, withNote)] : []),
  ];
  return { elements: [menu, note, h("div.buttons", {}, ...groups)], options, more, withNote };
}

/** What a button says; the first ones say their key, too. */
function caption({ id, label, scope }: ApprovalOption, chosen: string | undefined): (string | HTMLElement)[] {
  const key = KEYS[id];
  const isOnce = id === "allow-once" && scope === "once";
  const words = !isOnce ? label : chosen === undefined ? "Allow" : `Allow ${chosen}`;
  return key === undefined ? [words] : [words, " ", h("kbd", { "aria-hidden": "true" }, keyWords(key))];
}

function keyWords(key: string): string {
  const sign = key.replace("Backspace", "⌫").replace("Enter", "↵");
  return navigator.platform.startsWith("Mac") ? `⌥⌘${sign.replace("Shift+", "⇧")}` : `Ctrl+Alt+${sign}`;
}

/** Allows once whatever waits and has no high risk: each by its own digest, and only what was listed. */
export function allowAll(
  pending: readonly (Approval | InputRequest)[],
  folders: readonly string[],
  press: (optionId: string) => boolean,
): HTMLElement[] {
  const approvals = pending.filter((each) => "digest" in each);
  const harmless = approvals.flatMap((approval) => {
    const optionId = harmlessAnswer(approval);
    return optionId === undefined ? [] : [{ approval, optionId }];
  });
  const [first, ...others] = harmless;
  if (!first || first.approval !== pending[0] || others.length === 0) return [];
  const left = approvals.filter((each) => harmlessAnswer(each) === undefined);
  const leftWord = left.every(({ risk }) => risk === "high") ? "of high risk" : "more";
  const answer = () => {
    if (!press(first.optionId)) return;
    for (const { approval, optionId } of others)
      run("approval/respond", { approvalId: approval.id, digest: approval.digest, optionId });
  };
  // What has just joined the list was not meant by a click that was on its way.
  const all = h("button.secondary", { "data-option": "all", disabled: true, onclick: answer });
  all.textContent = `Allow all ${others.length + 1}`;
  activateOnceSeen(() => {
    all.disabled = false;
  });
  return [
    h(
      "details.others",
      { open: true },
      h("summary", {}, `${others.length} more wait${others.length > 1 ? "" : "s"}`),
      h("ul", {}, ...others.map(({ approval }) => h("li", {}, ...wholeView(approval, folders)))),
    ),
    all,
    h("span.hint", {}, left.length > 0 && `You are still asked about ${left.length} ${leftWord}`),
  ];
}

/** The id of the answer that allows it once, which is not one that lasts for the turn. */
function harmlessAnswer({ options, risk }: Approval): string | undefined {
  if (risk !== "low" && risk !== "medium") return undefined;
  return options.find(({ effect, scope }) => effect === "allow" && scope === "once")?.id;
}

/** All that its own card shows: the title is cut, and nobody may allow what they have not seen. */
function wholeView(approval: Approval, folders: readonly string[]): (string | HTMLElement)[] {
  const asked = { folders, by: undefined, half: {}, keep: () => undefined };
  return [
    approval.subject.kind === "command" ? headline(approval) : visible(approval.title, HIDDEN),
    ...reasons(approval),
    ...gitRows(approval),
    subjectView({ ...approval, editable: false }, asked).element,
  ];
}

function headline({ subject, title }: Approval): string {
  switch (subject.kind) {
    case "command":
      return subject.outside === undefined ? "Run this command?" : "Run this outside the sandbox?";
    case "fileChange":
      return subject.origin === "command" ? "Keep what the command changed?" : "Make this edit?";
    case "tool":
      // Our own tools say what they do. Others have a definition, and only a name.
      return visible(subject.definition === undefined ? `${title}?` : `Use ${title}?`, HIDDEN);
    case "path":
      return subject.access === "write" ? "Write to this file?" : "Read this file?";
    case "trust":
      return subject.isTrusted ? "May these run without asking?" : "May the agent act in this folder?";
    case "saveDocuments":
      return "Save these files first?";
    default:
      return visible(title, HIDDEN);
  }
}

/** What a command did to repositories; it is kept with all of its changes, or not at all. */
function gitRows({ subject, editable }: Approval): HTMLElement[] {
  const changes = subject.kind === "fileChange" ? (subject.git ?? []) : [];
  const condition = editable ? " (only with all of the changes)" : "";
  return changes.map(({ title }) => h("p.why", {}, visible(`git: ${title}${condition}`, HIDDEN)));
}

interface SubjectView {
  element: HTMLElement;
  edited: () => Subject | undefined;
}

function subjectView({ id, subject, editable }: Approval, asked: Asked): SubjectView {
  const fixed = (element: HTMLElement): SubjectView => ({ element, edited: () => undefined });
  switch (subject.kind) {
    case "command":
      return editable
        ? editableCommand(subject, asked)
        : fixed(h("div", {}, exact(subject.command), placeRow(subject.cwd, asked.folders)));
    case "fileChange":
      return fixed(
        h(
          "div",
          {},
          ...subject.changes.map((change) =>
            fileDiff(change, () => run("host/openProposal", { approvalId: id, change })),
          ),
        ),
      );
    case "tool":
      return fixed(exact(JSON.stringify(subject.args, undefined, 2)));
    case "path":
      return fixed(exact(filePath(subject.uri)));
    case "trust":
      return fixed(trustView(subject));
    case "saveDocuments":
      return fixed(exact(subject.uris.map(pathIn).join("\n")));
    case "host":
      return fixed(exact((subject.hosts ?? [`${subject.host}:${subject.port}`]).join("\n")));
    default:
      return fixed(h("p.why", {}, unknownText((subject as { kind: string }).kind)));
  }
}

/** Characters that are not seen but change what is, such as the direction of text. */
const HIDDEN = /[^\n\t\P{C}]/gu;

/** The folder in which the command runs, unless it is the conversation's own. */
function placeRow(cwd: string, folders: readonly string[]): HTMLElement | undefined {
  const home = filePath(folders[0] ?? "");
  if (cwd === home) return undefined;
  return h("p.cwd", {}, `in ${cwd.startsWith(`${home}/`) ? cwd.slice(home.length + 1) : cwd}`);
}

function editableCommand(subject: Extract<Subject, { kind: "command" }>, { folders, half, keep }: Asked): SubjectView {
  const field = h("textarea.exact", {
    rows: 1,
    spellcheck: "false",
    "aria-label": "Command, can be edited before it runs",
  });
  field.value = half.command ?? subject.command;
  // The whole command is visible at every width: the user must have read what they allow.
  new ResizeObserver(() => {
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight + 2}px`;
  }).observe(field);
  field.addEventListener("input", () => {
    field.style.height = `${field.scrollHeight + 2}px`;
    keep({ command: field.value });
  });
  const edited = () => (field.value === subject.command ? undefined : { ...subject, command: field.value });
  return { element: h("div", {}, field, placeRow(subject.cwd, folders)), edited };
}

/** How many are seen at once; the others are a click away. */
const FIRST_RUNS = 6;
const RUN_KINDS: Record<ProjectProgram["kind"], string> = {
  hook: "Hook",
  skillCommand: "Command of a skill",
  server: "MCP server of a skill",
};

/** The folder, and what runs in it without asking once that is allowed. */
function trustView({ folder, isTrusted, runs = [] }: Extract<Subject, { kind: "trust" }>): HTMLElement {
  const more = runs.slice(FIRST_RUNS);
  return h(
    "div.runs",
    {},
    !isTrusted && exact(filePath(folder)),
    !isTrusted && runs.length > 0 && h("p.why", {}, "These will run without asking:"),
    ...runsView(runs.slice(0, FIRST_RUNS), folder),
    more.length > 0 && h("details", {}, h("summary", {}, `${more.length} more`), ...runsView(more, folder)),
  );
}

/** The commands, below the file that names them. */
function runsView(runs: readonly ProjectProgram[], folder: string): HTMLElement[] {
  const home = `${filePath(folder)}/`;
  return runs.flatMap(({ kind, command, uri }, n) => {
    const file = filePath(uri);
    const name = file.startsWith(home) ? file.slice(home.length) : file;
    const before = runs[n - 1];
    const isFirst = before?.kind !== kind || before.uri !== uri;
    const label = h("p.cwd", {}, visible(`${RUN_KINDS[kind]}, in ${name}`, HIDDEN));
    return isFirst ? [label, exact(command)] : [exact(command)];
  });
}

function exact(text: string): HTMLElement {
  return h("pre.exact", { tabindex: 0, role: "group", "aria-label": "What is asked" }, visible(text, HIDDEN));
}
