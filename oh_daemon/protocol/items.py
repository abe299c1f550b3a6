"""The items of a conversation, one for each thing that a client shows, and its turns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract, Range
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.protocol.status import Usage

Risk = Literal["low", "medium", "high", "unknown"]
ItemStatus = Literal[
    "pending", "awaitingApproval", "running", "completed", "failed", "rejected", "cancelled"
]
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]
Delivery = Literal["auto", "queue", "steer", "interrupt"]
Purpose = Literal["condensation", "title", "ask", "subagent"]
"""Purpose of a model call that is not a step."""
TurnCause = Literal["message", "resume", "condense", "apply"]
StopReason = Literal[
    "endTurn",
    "finished",
    "maxTokens",
    "maxSteps",
    "maxCostUsd",
    "maxCostUsdPerConversation",
    "maxCostUsdPerDay",
    "maxMinutes",
    "refusal",
    "cancelled",
    "noAnswer",
    "toolErrors",
    "stuck",
    "hook",
    "needsInput",
    "error",
]
Scope = Literal["once", "turn", "conversation", "edits", "folder", "server", "user"]


class Location(Contract):
    uri: str
    range: Range | None = None


class FileForm(Contract):
    """How a text is stored on disk."""

    encoding: str = "utf-8"
    """The encoding."""
    bom: bool = False
    """Whether it begins with a byte order mark."""
    mode: int | None = None
    """Permissions; None means those of any new file."""


class FileChange(Contract):
    """One file before and after a change; the texts themselves are stored as blobs, by hash."""

    uri: str
    op: Literal["add", "modify", "delete"]
    """What happens to the file."""
    added: int
    """Number of lines that are added."""
    removed: int
    """Number of lines that are removed."""
    patch: str | None = None
    """Unified diff with three lines of context, cut at 32 KiB."""
    sha256_before: str | None = None
    """Hash of the text as the editor or the disk had it; absent when the file was new."""
    sha256_after: str | None = None
    """The same afterwards; absent when the file was deleted."""
    unsaved: bool | None = None
    """True when the buffer has the change but the disk does not have it yet."""
    form: FileForm | None = None
    """For a deleted file; with the text before, it allows restoring the file byte for byte."""
    raw: Literal["bytes", "link", "folder"] | None = None
    """Set if the hashes are of bytes or of a link's target, not of a text; a folder has none."""
    mode_before: int | None = None
    """Permissions, where a change of bytes or of the permissions themselves names them."""
    mode_after: int | None = None
    """The same afterwards."""


class GitChange(Contract):
    """A branch, a tag, the stash, HEAD, or what is staged, of one repository."""

    repository: str
    """URI of its folder."""
    title: str
    """In words, such as `commit on main: Fix the parser`."""
    ref: str | None = None
    """The full name, such as `refs/heads/main`, or `HEAD`; absent for what is staged."""
    before: str | None = None
    """Name of the commit, for HEAD also of the branch; absent when there was none."""
    after: str | None = None
    """The same afterwards; absent when it is gone."""


class Hunk(Contract):
    """Lines that differ, counted from 0; `old` is the accepted text, `new` the agent's."""

    old_start: int
    """First line in the old text."""
    old_lines: int
    """How many lines of the old text."""
    new_start: int
    """First line in the new text."""
    new_lines: int
    """How many lines of the new text."""


class NamedHunk(Hunk):
    """A hunk together with the file that it is in."""

    uri: str

    @property
    def hunk(self) -> Hunk:
        return Hunk(**dict(self))


class ModelCall(Contract):
    """The model's tool call, as it must be sent back to the model; clients ignore it."""

    id: str
    """The model's id of the call."""
    name: str
    """Name of the tool."""
    arguments: str
    """An object as valid JSON text."""
    batch: str
    """Id of the model answer that made the call; the calls of one answer are one batch."""


class ItemBase(Contract):
    id: str
    """Id of the item; it stays the same."""
    status: ItemStatus = "completed"
    reason: str | None = None
    """Why the item ended as it did, for instance `outcomeUnknown`, `interrupted`, `retried`."""
    started_at: str | None = None
    ended_at: str | None = None


class UserMessageItem(ItemBase):
    kind: Literal["userMessage"] = "userMessage"
    message_id: str
    client_message_id: str | None = None
    content: tuple[Part, ...]
    """What the message is made of."""
    delivery: Delivery = "auto"
    """How it was sent."""
    editor: dict[str, str] | None = None
    """What the editor showed then, as told to the model; only what the model did not know yet."""
    environment: dict[str, str] | None = None
    """What had changed about where the agent works, such as its mode, as told to the model."""


class AgentMessageItem(ItemBase):
    kind: Literal["agentMessage"] = "agentMessage"
    message_id: str
    text: str = ""
    """Markdown of the model; untrusted."""
    batch: str | None = None
    """Id of the model's answer that this is a part of."""


class ReasoningItem(ItemBase):
    kind: Literal["reasoning"] = "reasoning"
    text: str = ""
    """What the model thought, as far as the provider tells it."""
    batch: str | None = None
    """Id of the model's answer that this is a part of."""
    blocks: tuple[dict[str, Any], ...] = ()
    """Provider blocks (signatures, encrypted text) that go back to the model unmodified."""
    model: str | None = None
    """The model that produced this. Other models would refuse its blocks and do not get them."""


class ToolItemBase(ItemBase):
    """The fields of every tool call, whatever its kind."""

    tool: str
    """Name of the tool, as the model calls it."""
    tool_kind: ToolKind = "other"
    """What sort of thing the tool does, for icons."""
    title: str = ""
    args: dict[str, Any] = Field(default_factory=dict)
    """The arguments that the model gave."""
    risk: Risk = "unknown"
    self_rating: Risk | None = None
    """The model's own rating of the risk; it may raise `risk`, but never lower it."""
    summary: str | None = None
    """The model's own summary of the call."""
    locations: tuple[Location, ...] = ()
    """Where in files it acts."""
    content: tuple[dict[str, Any], ...] = ()
    """MCP content blocks, exactly as the model gets them."""
    meta: dict[str, Any] | None = None
    """MCP's `_meta` of the result: data from the tool for clients, not sent to the model."""
    output_ref: str | None = None
    """Reference to the whole output for `output/read`, when `content` was cut."""
    duration_ms: int | None = None
    """How long it ran, in milliseconds."""
    call: ModelCall


class ToolCallItem(ToolItemBase):
    kind: Literal["toolCall"] = "toolCall"


class CommandItem(ToolItemBase):
    kind: Literal["command"] = "command"
    command: str
    cwd: str
    terminal_id: str
    exit_code: int | None = None
    signal: int | None = None
    """The signal that ended it."""
    truncated: bool | None = None
    """Whether `content` has not the whole output."""
    changes: tuple[FileChange, ...] | None = None
    """The changes that were applied to the open folders."""
    git: tuple[GitChange, ...] | None = None
    """The changes that were applied to repositories; a rollback does not undo them."""


class FileChangeItem(ToolItemBase):
    kind: Literal["fileChange"] = "fileChange"
    changes: tuple[FileChange, ...] = ()
    """What changed, each file with its diff."""
    route: Literal["editor", "disk"] | None = None
    """Who wrote it."""
    undo_label: str | None = None
    """Label of the editor's undo step."""
    git: tuple[GitChange, ...] | None = None
    """As in a command's item, if programs in the background made the changes."""
    origin: Literal["command"] | None = None
    """Set if the daemon applies changes of background jobs or hooks in the sandbox. No call of the
    model made them; it gets `content` as a note."""


class PlanEntry(Contract):
    id: str
    """Its id within the plan."""
    text: Annotated[str, Field(max_length=2000)]
    """What is to be done."""
    status: Literal["pending", "inProgress", "completed"] = "pending"
    """How far it is."""
    priority: Literal["high", "medium", "low"] = "medium"
    """How much it matters."""


class PlanItem(ToolItemBase):
    kind: Literal["plan"] = "plan"
    entries: Annotated[tuple[PlanEntry, ...], Field(max_length=200)] = ()
    """The whole plan, as it is from now on."""


class SubagentItem(ItemBase):
    """A sub-agent; what it does is in the log of its own conversation."""

    kind: Literal["subagent"] = "subagent"
    conversation_id: str
    """Id of the sub-agent's own conversation."""
    agent: str
    """Name of the agent."""
    title: str


class NoticeItem(ItemBase):
    kind: Literal["notice"] = "notice"
    severity: Literal["info", "warning", "error"] = "info"
    code: str | None = None
    """What the notice says, for programs, where they need to know: for instance `emptyAnswer`."""
    about: str | None = None
    """What the code is about: the name of a server or model, the file of a skill."""
    title: str
    description: str | None = None
    note: str | None = None
    """The text for the model, if the notice is for the model too."""
    skill: str | None = None
    """Name of the skill whose text is in `note`."""
    skills: tuple[str, ...] | None = None
    """Names of the skills that `note` lists."""
    environment: dict[str, str] | None = None
    """What `note` says about where the agent works, by kind."""
    settles: str | None = None
    """Id of the notice on which an offer hung that was answered; this says what came of it."""


class CondensationItem(ItemBase):
    """From here on, the model gets `summary` in place of everything before `keepFrom`."""

    kind: Literal["condensation"] = "condensation"
    keep_from: str | None = None
    """Id of the first item that the model still gets verbatim."""
    pruned: tuple[str, ...] = ()
    """Ids of later items whose output the model no longer gets."""
    limits: dict[str, int] | None = None
    """How many characters of the output of later items the model gets, start and end, by id."""
    context_size: int | None = None
    """The window in tokens for which these outputs were cut."""
    summary: str | None = None
    """The text that the model gets instead."""
    tokens_before: int = 0
    """Size before."""
    tokens_after: int = 0
    """Both are estimates of the next request's size."""


ToolItem = ToolCallItem | CommandItem | FileChangeItem | PlanItem
Item = Annotated[
    UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | ToolItem
    | SubagentItem
    | NoticeItem
    | CondensationItem,
    Field(discriminator="kind"),
]


class QueuedMessage(Contract):
    message_id: str
    client_message_id: str | None = None
    content: tuple[Part, ...]
    """What it is made of."""
    delivery: Delivery
    """How it was sent."""
    held: bool | None = None
    """Sent with `run: false`: the message waits for the next turn and does not start one."""
    options: dict[str, str] | None = None
    """Override the conversation's options for the turn that the message starts."""
    created_at: str


class ErrorInfo(Contract):
    """A failure as clients show it: what happened and what to do, never a traceback."""

    code: int
    """The code of the error."""
    kind: str
    """Its stable name for programs."""
    message: str
    """What happened, for people."""
    retryable: bool = False
    """Whether another attempt can help."""
    hint: str | None = None
    """What the user can do."""

    @staticmethod
    def of(exc: DaemonError) -> ErrorInfo:
        return ErrorInfo.model_validate(exc, from_attributes=True)


class Turn(Contract):
    """The agent's work from a user message (or a resume) until it rests."""

    id: str
    """Id of the turn."""
    status: Literal["running", "completed", "interrupted", "paused", "failed"]
    """How it is, or how it ended."""
    stop_reason: StopReason | None = None
    """Why it ended."""
    started_at: str
    ended_at: str | None = None
    n_steps: int = 0
    """Number of its steps."""
    usage: Usage | None = None
    error: ErrorInfo | None = None
    """What it failed at."""
    final_text: str | None = None
    """What the agent said at the end."""
    result: Any = None
    """What the agent gave to `finish`, if the conversation has a `resultSchema`."""


class AgentInfo(Contract):
    """The model, prompt and tools of a conversation, exactly as they are sent to the model."""

    model: str
    """The model by its name."""
    label: str
    system_prompt: str
    """The system prompt."""
    context_files: tuple[str, ...] | None = None
    """The project's files that the prompt includes, such as AGENTS.md."""
    skills: dict[str, str] | None = None
    """Names of the skills that the prompt lists or includes, each with a digest of its text."""
    environment: dict[str, str] | None = None
    """What the prompt says about where the agent works, by kind: date, git, mode and so on."""
    tools: tuple[dict[str, Any], ...]
    """The tools as the model gets them; requests lack one whose `_meta.access` is `onDemand`."""
