"""Parameters and results of most methods outside `conversation/*`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SecretStr

from oh_daemon.protocol.approvals import Approval, Decision, Subject
from oh_daemon.protocol.base import Contract, Range
from oh_daemon.protocol.llm import HttpUrl
from oh_daemon.protocol.messages import ConversationId, Empty, OfConversation
from oh_daemon.protocol.settings import SandboxSetting
from oh_daemon.protocol.status import ConversationState

Trust = Literal["full", "readOnly", "none"]


class ApprovalListParams(Contract):
    """List the pending approvals."""

    conversation_id: ConversationId | None = None
    """Only of this one; by default of all that are open."""


class ApprovalListResult(Contract):
    pending: tuple[Approval, ...]
    """Oldest first."""


class ApprovalRespondParams(Contract):
    """Allow or reject an action; the digest must be echoed, and the first answer wins."""

    approval_id: str
    """Id of the approval."""
    digest: str
    option_id: str | None = None
    """Id of an option. Either this or `decision` must be there."""
    decision: Decision | None = None
    """The effect and scope of one of the options."""
    feedback: Annotated[str, Field(max_length=8000)] | None = None
    edited_subject: Subject | None = None


class OutputReadParams(OfConversation):
    """Read more of an output of which the item only shows the beginning and the end."""

    output_ref: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The `outputRef` of an item or a part."""
    offset: Annotated[int, Field(ge=0)] = 0
    """The first byte."""
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144
    """How many bytes to read."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """Encoding of `text`; use `base64` for images."""


class OutputReadResult(Contract):
    """Bytes `offset` to `nextOffset` of the whole output, as text."""

    text: str
    """The bytes, in the `encoding` that was asked for."""
    next_offset: int
    """The byte after the last one here."""
    total: int
    """Size of the whole output in bytes."""


class PortListParams(OfConversation):
    """List the ports on which the conversation's commands listen in the sandbox."""


class OpenPort(Contract):
    """A port of the sandbox, which is not one of this machine."""

    port: int
    """The port on which a command listens."""
    address: str | None = None
    """Where it is reached from outside, once it was opened."""


class PortListResult(Contract):
    ports: tuple[OpenPort, ...]
    """Lowest first."""


class PortOpenParams(OfConversation):
    """Let the user reach a port of the sandbox; that ends with what listens there."""

    port: Annotated[int, Field(ge=1, le=65_535)]
    """One of `port/list`."""


class PortOpenResult(Contract):
    address: str
    """A port of 127.0.0.1 from which all is passed on."""


class PortChangedParams(OfConversation):
    """All ports on which the conversation's commands listen in the sandbox."""

    ports: tuple[OpenPort, ...]
    """Lowest first."""


class TerminalListParams(OfConversation):
    """List the agent's terminals; there are none while the conversation is not open."""


class TerminalInfo(Contract):
    terminal_id: str
    command: str | None = None
    """The running command, or the last one."""
    cwd: str
    running: bool
    """Whether something runs in it."""
    exit_code: int | None = None
    size_bytes: int
    """Size of the output that is kept."""


class TerminalListResult(Contract):
    terminals: tuple[TerminalInfo, ...]
    """In the order in which they were started."""


class OfTerminal(OfConversation):
    terminal_id: str


class TerminalReadParams(OfTerminal):
    """Read what a terminal showed, as text; at least the last MiB is kept."""

    offset: Annotated[int, Field(ge=0)] = 0
    """In characters. If that text is no longer kept, reading starts at the oldest that is."""
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144
    """How many characters to read."""


class TerminalReadResult(Contract):
    data: str
    """The text."""
    next_offset: int
    """The character after the last one here."""
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
    """Those of this conversation; by default those of a new one."""


class ToolInfo(Contract):
    name: str
    """Its name, as the model calls it."""
    description: str
    """What it does, as the model reads it."""
    input_schema: dict[str, Any]
    """JSON Schema of its arguments."""
    annotations: dict[str, Any]
    """MCP's hints, such as `readOnlyHint`."""


class ToolListResult(Contract):
    tools: tuple[ToolInfo, ...]
    """All that the model may call."""


class ModelInfo(Contract):
    id: str
    """What the option `model` takes."""
    label: str
    kind: Literal["model", "profile", "router"] = "model"
    """Profiles and routers are names from the user's settings."""
    context_window: int | None = None
    """Its input limit in tokens, if it is known."""
    available: bool
    """Whether it can be asked now."""
    reason: str | None = None
    """If not, why, and what to do."""
    efforts: tuple[str, ...] | None = None
    """How much it can be told to think, by the option `effort`; none if that is not known."""


class ModelListParams(Empty):
    """List the models that can be chosen by name."""


class ModelListResult(Contract):
    models: tuple[ModelInfo, ...]
    """All that can be chosen by name."""
    default: str | None = None
    """Id of the one that a new conversation has."""


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
    """Address of the server, with or without `/v1`."""


class ModelDiscoverResult(Contract):
    base_url: str
    """Where its API begins: what was asked for, or `/v1` below that."""
    models: tuple[str, ...]
    """Each is asked as `hosted_vllm/` and its name, with this `baseUrl`."""


class ConfigReadParams(Contract):
    """Read the settings in force, and the source of each."""

    section: str | None = None
    """Name of one setting; by default all are read."""


class ConfigReadResult(Contract):
    """The settings in force; `sources` names the source of each. Keys are shown as `***`."""

    value: dict[str, Any]
    """The settings by name."""
    sources: dict[str, str]
    """Where the value of each comes from."""
    problems: tuple[str, ...]


class ConfigValidateParams(Contract):
    """Check settings that are not in force yet, and report their problems."""

    settings: dict[str, Any]
    """The settings by name."""
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
    """The secret itself."""
    for_commands: bool = False
    """Lend it to commands, not models: a command that names the variable asks, and then gets it."""


class SecretRemoveParams(Contract):
    """Forget a key or a secret; its value is still masked everywhere."""

    name: SecretName
    """The name that it was exposed under."""


class SecretListParams(Empty):
    """List the names of the keys and secrets that the editor has exposed."""


class SecretNames(Contract):
    """The names of exposed keys and secrets, never their values."""

    names: tuple[str, ...]
    """Names of the keys for models."""
    for_commands: tuple[str, ...] = ()
    """Names of the secrets for commands."""


class ConversationLoad(Contract):
    id: str
    """Id of the conversation."""
    status: ConversationState


class DaemonStatusParams(Empty):
    """Read the state of the daemon: its load, and warnings."""


class SandboxInfo(Contract):
    """What holds the commands that run unasked, as `initialize` reports it, too."""

    level: Literal["overlay", "landlock", "off"]
    """A sandbox of its own, Landlock, or nothing."""
    setting: SandboxSetting
    """The setting. When it names a level and `level` is another, no command runs."""
    cause: str | None = None
    """Why it is not a better level."""
    cure: str | None = None
    """The command that changes that."""


class DaemonStatusResult(Contract):
    version: str
    """Version of the product."""
    pid: int
    """Its process id."""
    uptime_s: float
    """Seconds since it started."""
    rss_bytes: int
    """Memory that it uses, in bytes."""
    conversations: tuple[ConversationLoad, ...]
    """Those that are open."""
    writer_queue_bytes: int
    """Bytes that wait for you to read them."""
    sandbox: SandboxInfo
    warnings: tuple[str, ...]
    """What the user should know, one sentence for each."""


class FolderTrust(Contract):
    folder: str
    """URI or path of the folder."""
    trusted: Trust
    """What agents may do there."""


class SetTrustParams(FolderTrust):
    """Set what agents may do in a folder."""


class SetTrustResult(Contract):
    folders: tuple[FolderTrust, ...]
    """The decisions that the user has made."""


class ShownSelection(Contract):
    """The selection in the active document; an empty range is the cursor."""

    uri: str
    range: Range
    text: str | None = None
    """The selected text."""


class ProblemCounts(Contract):
    errors: int = 0
    """How many errors the editor shows."""
    warnings: int = 0
    """How many warnings it shows."""


class ContextChangedParams(Contract):
    """Report everything that the user now sees; the agent is told with the next message."""

    active_uri: str | None = None
    """The document with the cursor."""
    selection: ShownSelection | None = None
    visible_ranges: tuple[Range, ...] = ()
    """What is on the screen of that document."""
    open_uris: tuple[str, ...] = ()
    """All open documents."""
    diagnostics_summary: ProblemCounts | None = None
    """How many problems the editor shows."""
