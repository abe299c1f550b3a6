"""Parameters and results of most methods outside `conversation/*`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SecretStr

from oh_daemon.contract.approvals import Approval, Subject
from oh_daemon.contract.base import Contract, Range
from oh_daemon.contract.events import Decision
from oh_daemon.contract.items import FileChange, GitChange, Hunk, NamedHunk
from oh_daemon.contract.llm import HttpUrl
from oh_daemon.contract.messages import Conflict, ConversationId, Empty, OfConversation
from oh_daemon.contract.settings import SandboxSetting
from oh_daemon.contract.status import ConversationState

Trust = Literal["full", "readOnly", "none"]


class ApprovalListParams(Contract):
    """List the pending approvals."""

    conversation_id: ConversationId | None = None


class ApprovalListResult(Contract):
    pending: tuple[Approval, ...]


class ApprovalRespondParams(Contract):
    """Allow or reject an action; the digest must be echoed, and the first answer wins."""

    approval_id: str
    digest: str
    option_id: str | None = None
    decision: Decision | None = None
    feedback: Annotated[str, Field(max_length=8000)] | None = None
    edited_subject: Subject | None = None


class ChangesListParams(OfConversation):
    """List the files that the agent changed, with the changes that wait for review."""

    turn_id: str | None = None
    """List what this turn changed instead, reviewed or not."""


class ReviewedFile(FileChange):
    """All changes to a file that are not accepted yet, as one change."""

    state: Literal["pending", "accepted", "reverted", "conflict"]
    """State of the file as a whole; `conflict` when it is pending and can no longer be reverted."""
    by_command: bool | None = None
    """Set if some of it was changed by a command, not by an edit."""


class ChangesListResult(Contract):
    files: tuple[ReviewedFile, ...]
    left_out: dict[str, str] | None = None
    """In an isolated conversation: what cannot land, only be reverted, by URI, with the reason."""
    git: tuple[GitChange, ...] | None = None
    """In an isolated conversation: commits and the like, which land when no file waits any more."""


class ChangesDiffParams(OfConversation):
    """Show the changes to a file that wait for review, with their hunks."""

    uri: str
    turn_id: str | None = None
    """Show what this turn did to the file instead; `hunks` is then empty."""


class ChangesDiffResult(Contract):
    """Both texts use LF as line ending; a text is absent when there was no file."""

    old_text: str | None = None
    new_text: str | None = None
    patch: str
    hunks: tuple[Hunk, ...]


class ReviewParams(OfConversation):
    """Whole files, or hunks as `changes/diff` lists them; without both, all pending changes."""

    uris: tuple[str, ...] = ()
    hunks: tuple[NamedHunk, ...] = ()


class AcceptParams(ReviewParams):
    """Accept changes: they no longer wait for review."""


class RevertParams(ReviewParams):
    """Revert changes through the editor, leaving later changes of the user in place."""


class ReviewResult(Contract):
    """The files that were accepted or reverted, and those left unchanged, with the reason."""

    done: tuple[str, ...]
    conflicts: tuple[Conflict, ...]


class OutputReadParams(OfConversation):
    """Read more of an output of which the item only shows the beginning and the end."""

    output_ref: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """Encoding of `text`; use `base64` for images."""


class OutputReadResult(Contract):
    """Bytes `offset` to `nextOffset` of the whole output, as text."""

    text: str
    next_offset: int
    total: int


class PortListParams(OfConversation):
    """List the ports on which the conversation's commands listen in their view."""


class OpenPort(Contract):
    """A port of the view, which is not one of this machine."""

    port: int
    address: str | None = None
    """Where it is reached from outside, once it was opened."""


class PortListResult(Contract):
    ports: tuple[OpenPort, ...]


class PortOpenParams(OfConversation):
    """Let the user reach a port of the view; that ends with what listens there."""

    port: Annotated[int, Field(ge=1, le=65_535)]


class PortOpenResult(Contract):
    address: str
    """A port of 127.0.0.1 from which all is passed on."""


class PortChangedParams(OfConversation):
    """All ports on which the conversation's commands listen in their view."""

    ports: tuple[OpenPort, ...]


class TerminalListParams(OfConversation):
    """List the agent's terminals; there are none while the conversation is not open."""


class TerminalInfo(Contract):
    terminal_id: str
    command: str | None = None
    """The running command, or the last one."""
    cwd: str
    running: bool
    exit_code: int | None = None
    size_bytes: int
    """Size of the output that is kept."""


class TerminalListResult(Contract):
    terminals: tuple[TerminalInfo, ...]


class OfTerminal(OfConversation):
    terminal_id: str


class TerminalReadParams(OfTerminal):
    """Read what a terminal showed, as text; at least the last MiB is kept."""

    offset: Annotated[int, Field(ge=0)] = 0
    """In characters. If that text is no longer kept, reading starts at the oldest that is."""
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144


class TerminalReadResult(Contract):
    data: str
    next_offset: int
    eof: bool
    """True when everything was read and no running command can write more."""


class TerminalWriteParams(OfTerminal):
    """Type into the program that runs in a terminal; the agent is told."""

    data: Annotated[str, Field(min_length=1, max_length=65_536)]
    """Exactly the characters to type: Enter is a line break, Ctrl-C is U+0003."""


class TerminalKillParams(OfTerminal):
    """End everything that runs in a terminal, background jobs included; its shell stays."""


class ToolListParams(Contract):
    """List the tools that the agent is offered."""

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
    """Profiles and routers are names from the user's settings."""
    context_window: int | None = None
    available: bool
    reason: str | None = None


class ModelListParams(Empty):
    """List the models that can be chosen by name."""


class ModelListResult(Contract):
    models: tuple[ModelInfo, ...]
    default: str | None = None


class ModelCheckParams(Contract):
    """Ask a model for one word, which tells whether its key and address are right."""

    model: str | None = None
    """By default, the default model."""
    base_url: HttpUrl | None = None
    """Where it is asked instead of where the settings say, and without the keys for there."""


class ModelCheckResult(Contract):
    model: str
    """The one that has answered."""


class ModelDiscoverParams(Contract):
    """List the models that a server offers which speaks OpenAI's API, such as Ollama."""

    base_url: HttpUrl


class ModelDiscoverResult(Contract):
    base_url: str
    """Where its API begins: what was asked for, or `/v1` below that."""
    models: tuple[str, ...]
    """Each is asked as `hosted_vllm/` and its name, with this `baseUrl`."""


class ConfigReadParams(Contract):
    """Read the settings in force, and the source of each."""

    section: str | None = None


class ConfigReadResult(Contract):
    """The settings in force; `sources` names the source of each. Keys are shown as `***`."""

    value: dict[str, Any]
    sources: dict[str, str]
    problems: tuple[str, ...]


class ConfigValidateParams(Contract):
    """Check settings that are not in force yet, and report their problems."""

    settings: dict[str, Any]
    source: Literal["client", "project", "user"] = "client"
    """Where the settings will be kept; those of a project may only tighten."""


class ConfigValidateResult(Contract):
    problems: tuple[str, ...]


SecretName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]


class SecretSetParams(Contract):
    """Lend the daemon a key, or a secret for commands, from the editor's store until it exits."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: SecretName
    """The variable that would hold it, such as `ANTHROPIC_API_KEY`."""
    value: Annotated[SecretStr, Field(min_length=8, max_length=16_384)]
    for_commands: bool = False
    """Lend it to commands, not models: a command that names the variable asks, and then gets it."""


class SecretRemoveParams(Contract):
    """Forget a key or a secret; its value is still masked everywhere."""

    name: SecretName


class SecretListParams(Empty):
    """List the names of the keys and secrets that the editor has lent."""


class SecretNames(Contract):
    """The names of lent keys and secrets, never their values."""

    names: tuple[str, ...]
    """Names of the keys for models."""
    for_commands: tuple[str, ...] = ()


class ConversationLoad(Contract):
    id: str
    status: ConversationState


class DaemonStatusParams(Empty):
    """Read the state of the daemon: its load, and warnings."""


class SandboxInfo(Contract):
    """What holds the commands that run unasked, as `initialize` reports it, too."""

    level: Literal["view", "landlock", "none"]
    wanted: SandboxSetting
    """The setting. When it names a level and `level` is another, no command runs."""
    cause: str | None = None
    """Why it is not a better level."""
    cure: str | None = None
    """The command that changes that."""


class DaemonStatusResult(Contract):
    version: str
    pid: int
    uptime_s: float
    rss_bytes: int
    conversations: tuple[ConversationLoad, ...]
    writer_queue_bytes: int
    sandbox: SandboxInfo
    warnings: tuple[str, ...]


class FolderTrust(Contract):
    folder: str
    trusted: Trust


class SetTrustParams(FolderTrust):
    """Set what agents may do in a folder."""


class SetTrustResult(Contract):
    folders: tuple[FolderTrust, ...]


class ShownSelection(Contract):
    """The selection in the active document; an empty range is the cursor."""

    uri: str
    range: Range
    text: str | None = None


class ProblemCounts(Contract):
    errors: int = 0
    warnings: int = 0


class ContextChangedParams(Contract):
    """Report everything that the user now sees; the agent is told with the next message."""

    active_uri: str | None = None
    selection: ShownSelection | None = None
    visible_ranges: tuple[Range, ...] = ()
    open_uris: tuple[str, ...] = ()
    diagnostics_summary: ProblemCounts | None = None
