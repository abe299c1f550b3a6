"""Parameters and results of the methods that are not about one conversation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SecretStr

from oh_daemon.contract.approvals import Approval, Subject
from oh_daemon.contract.base import Contract, Range
from oh_daemon.contract.events import Decision
from oh_daemon.contract.items import ConversationState, FileChange, Hunk, NamedHunk
from oh_daemon.contract.messages import Conflict, ConversationId, Empty, OfConversation

Trust = Literal["full", "readOnly", "none"]


class ApprovalListParams(Contract):
    """Approvals that wait."""

    conversation_id: ConversationId | None = None


class ApprovalListResult(Contract):
    pending: tuple[Approval, ...]


class ApprovalRespondParams(Contract):
    """Allow or reject; the digest must be echoed and the first answer wins."""

    approval_id: str
    digest: str
    option_id: str | None = None
    decision: Decision | None = None
    feedback: Annotated[str, Field(max_length=8000)] | None = None
    edited_subject: Subject | None = None


class ChangesListParams(OfConversation):
    """Files that the agent changed, and what of it waits for review."""

    turn_id: str | None = None
    """Only what this turn changed, as it changed it."""


class ReviewedFile(FileChange):
    """Everything that is not accepted yet, as one change."""

    state: Literal["pending", "accepted", "reverted", "conflict"]
    """Of the file as a whole; `conflict` when it waits and cannot be reverted any more."""


class ChangesListResult(Contract):
    files: tuple[ReviewedFile, ...]


class ChangesDiffParams(OfConversation):
    """What of a file waits for review, with its hunks."""

    uri: str
    turn_id: str | None = None
    """Instead, what this turn did to it; hunks of that cannot be chosen."""


class ChangesDiffResult(Contract):
    """Texts with LF as line end; one is absent where there is no file."""

    old_text: str | None = None
    new_text: str | None = None
    patch: str
    hunks: tuple[Hunk, ...]


class ReviewParams(OfConversation):
    """Whole files, or hunks as `changes/diff` names them; without both, all that waits."""

    uris: tuple[str, ...] = ()
    hunks: tuple[NamedHunk, ...] = ()


class AcceptParams(ReviewParams):
    """Keep changes: they no longer wait for review."""


class RevertParams(ReviewParams):
    """Take changes back through the editor, around what the user changed since."""


class ReviewResult(Contract):
    """Files that were settled, and those that stay as they are, with the reason."""

    done: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


class OutputReadParams(OfConversation):
    """More of an output of which the item shows head and tail only."""

    output_ref: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """Of `text`; images are read in base64."""


class OutputReadResult(Contract):
    """Bytes `offset` to `nextOffset` of the whole output, as text."""

    text: str
    next_offset: int
    total: int


class TerminalListParams(OfConversation):
    """The agent's terminals; none when the conversation is not open."""


class TerminalInfo(Contract):
    terminal_id: str
    command: str | None = None
    """The one that runs, or ran last."""
    cwd: str
    running: bool
    exit_code: int | None = None
    size_bytes: int
    """Of the output that is kept."""


class TerminalListResult(Contract):
    terminals: tuple[TerminalInfo, ...]


class OfTerminal(OfConversation):
    terminal_id: str


class TerminalReadParams(OfTerminal):
    """What a terminal showed, as text; at least its last MiB is kept."""

    offset: Annotated[int, Field(ge=0)] = 0
    """In characters; before what is kept, the oldest comes first."""
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144


class TerminalReadResult(Contract):
    data: str
    next_offset: int
    eof: bool
    """All was read, and nothing runs that would write more."""


class TerminalWriteParams(OfTerminal):
    """Type into the program that runs; the agent hears of it."""

    data: Annotated[str, Field(min_length=1, max_length=65_536)]
    """Exactly the characters: Enter is a line break, Ctrl-C is U+0003."""


class TerminalKillParams(OfTerminal):
    """End what runs in a terminal, also in the background; its shell stays."""


class ToolListParams(Contract):
    """Tools the agent is offered."""

    conversation_id: ConversationId | None = None


class ToolInfo(Contract):
    name: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any]


class ToolListResult(Contract):
    tools: tuple[ToolInfo, ...]


class ModelInfo(Contract):
    id: str
    label: str
    kind: Literal["model", "profile", "router"] = "model"
    """Profiles and routers are names of the user's settings."""
    context_window: int | None = None
    available: bool
    reason: str | None = None


class ModelListParams(Empty):
    """Models that can be chosen by name."""


class ModelListResult(Contract):
    models: tuple[ModelInfo, ...]
    default: str | None = None


class ConfigReadParams(Contract):
    """Settings and where each comes from."""

    section: str | None = None


class ConfigReadResult(Contract):
    """Effective settings; `sources` names where each value came from. Keys show as `***`."""

    value: dict[str, Any]
    sources: dict[str, str]
    problems: tuple[str, ...]


class ConfigValidateParams(Contract):
    """What is wrong with settings that are not in force yet."""

    settings: dict[str, Any]
    source: Literal["client", "project", "user"] = "client"
    """Where they are to be kept; a project's may only tighten."""


class ConfigValidateResult(Contract):
    problems: tuple[str, ...]


SecretName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]


class SecretSetParams(Contract):
    """Lend the daemon a key, or a secret for commands, from the editor's store, until it ends."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: SecretName
    """The variable that would hold it, such as `ANTHROPIC_API_KEY`."""
    value: Annotated[SecretStr, Field(min_length=8, max_length=16_384)]
    for_commands: bool = False
    """Not for models: a command of an agent that names the variable gets it. Each one asks."""


class SecretRemoveParams(Contract):
    """Forget a key or a secret; it stays masked."""

    name: SecretName


class SecretListParams(Empty):
    """Which keys and secrets the editor has lent."""


class SecretNames(Contract):
    """Never the values."""

    names: tuple[str, ...]
    """Those for models."""
    for_commands: tuple[str, ...] = ()


class ConversationLoad(Contract):
    id: str
    status: ConversationState


class DaemonStatusParams(Empty):
    """How the daemon is."""


class DaemonStatusResult(Contract):
    version: str
    pid: int
    uptime_s: float
    rss_bytes: int
    conversations: tuple[ConversationLoad, ...]
    writer_queue_bytes: int
    warnings: tuple[str, ...]


class FolderTrust(Contract):
    folder: str
    trusted: Trust


class SetTrustParams(FolderTrust):
    """What a folder's agent may do."""


class SetTrustResult(Contract):
    folders: tuple[FolderTrust, ...]


class ShownSelection(Contract):
    """Of the active document; an empty range is the cursor."""

    uri: str
    range: Range
    text: str | None = None


class ProblemCounts(Contract):
    errors: int = 0
    warnings: int = 0


class ContextChangedParams(Contract):
    """What the user looks at now, whole; the agent is told with the next message."""

    active_uri: str | None = None
    selection: ShownSelection | None = None
    visible_ranges: tuple[Range, ...] = ()
    open_uris: tuple[str, ...] = ()
    diagnostics_summary: ProblemCounts | None = None
