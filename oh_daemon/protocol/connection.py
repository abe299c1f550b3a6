"""The blocks of `initialize`, and the data of an error, for the specification and the JSON Schema.

`frontends/lsp/boot` and `client_facts` read the block without these models, which load slowly.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.daemon_messages import SandboxInfo
from oh_daemon.protocol.model_requests import ModelOffer


class ProtocolVersion(Contract):
    """A version of this protocol."""

    major: int
    """The client's must be one that the server speaks."""
    minor: int = 0
    """A higher one only adds (X6)."""


class ClientInfo(Contract):
    """Who the client is."""

    name: str = ""
    """For the log; without it, that of LSP's `clientInfo`."""
    kind: Literal["panel", "buffer", "script", "unattended"] = "buffer"
    """`panel` shows approvals and questions from their events, so it counts as able to ask.
    `unattended`: nobody is there, so the agent decides by itself and has no questions."""


class Features(Contract):
    """The requests that the client answers; one that is missing counts as `false`."""

    apply_edit2: bool = False
    """You answer `editor/applyEdit`."""
    save_document: bool = False
    """You answer `editor/saveDocument`."""
    read_document: bool = False
    """You answer `editor/readDocument`."""
    diagnostics: bool = False
    """You answer `editor/diagnostics`; the agent gets a tool that uses it."""
    language_requests: bool = False
    """You answer `editor/languageRequest`; the agent gets tools that use it."""
    open_diff: bool = False
    """You answer `editor/openDiff`."""
    approval_requests: bool = False
    """You answer `approval/request`."""
    input_requests: bool = False
    """You answer `input/request`."""
    model_requests: bool = False
    """You answer `model/complete` and `model/describe`: all models are asked through you."""


class EventChoice(Contract):
    """What the client does not want to receive."""

    deltas: bool = True
    """`false`: no `conversation/delta`."""
    opt_out: tuple[str, ...] = ()
    """Event types that are not sent; the `seq` numbers that you receive then have gaps."""


class FolderVerdict(Contract):
    """Whether the editor trusts a folder, for this connection."""

    folder: str
    """URI or absolute path."""
    trusted: bool = False
    """`true` is full trust; `false` means read-only, and the user is not asked to change it."""


class ClientBlock(Contract):
    """What the client says of itself: `ohDaemon` in `initializationOptions`."""

    protocol_version: ProtocolVersion | None = None
    """The version that you speak."""
    client: ClientInfo | None = None
    features: Features = Features()
    events: EventChoice = EventChoice()
    trust: tuple[FolderVerdict, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings by their names; they override the user's file."""
    models: ModelOffer | None = None
    """With `modelRequests`: what can be chosen."""
    plain: bool = False
    """Treat you as a plain LSP client although there is a block."""
    experimental: tuple[str, ...] = ()
    """Names of experimental parts that you use (X5)."""


class DaemonInfo(Contract):
    """The process at the other end."""

    name: str
    """The product."""
    version: str
    """Its version, for people and logs."""
    pid: int
    """Its process id."""


class Understood(Contract):
    """What the server has made of the client's block."""

    features: tuple[str, ...] = ()
    """Those that you set to `true` and that this server uses."""
    unknown: tuple[str, ...] = ()
    """Features and settings that it does not know, by their path in the block."""


class ServerBlock(Contract):
    """What the server says of itself: `ohDaemon` in `capabilities.experimental` of its answer."""

    protocol_version: ProtocolVersion
    daemon: DaemonInfo
    methods: tuple[str, ...]
    """All requests of this protocol that it serves."""
    notifications: tuple[str, ...]
    """All notifications of this protocol that it may send."""
    limits: dict[str, int]
    """Its limits by name; see the table of limits."""
    sandbox: SandboxInfo | None = None
    """Absent if it is not known yet; `daemon/status` waits for it."""
    understood: Understood | None = None
    """Only if the client has sent a block."""
    experimental: tuple[str, ...] = ()
    """Names of experimental parts that it has (X5)."""


class FieldError(Contract):
    """What is wrong with one field."""

    path: str
    """The field, from `params`; within a union it names the type too (`content.0.text.text`)."""
    code: str
    """A name for programs; see the table of them."""
    message: str
    """What would fit, for people."""


class ErrorData(Contract):
    """`error.data` of every error."""

    kind: str
    """A stable name for programs, one for each code."""
    retryable: bool
    """Whether the same request may succeed later."""
    hint: str | None = None
    """What the user can do."""
    retry_after_ms: int | None = None
    """When to try again, in milliseconds."""
    http_status: int | None = None
    """The status that a provider answered."""
    reference: str | None = None
    """Where the server's log has the details."""
    errors: tuple[FieldError, ...] | None = None
    """With -32602."""


MODELS = (ClientBlock, ServerBlock, ErrorData)
