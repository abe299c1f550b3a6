"""Parameters and results of every method, one model each.

Requests that start work take `clientRequestId`: the same one again gets the stored result.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.events import Decision, Turn
from oh_daemon.contract.items import (
    Approval,
    Contract,
    ConversationState,
    Delivery,
    Option,
    Part,
    PauseReason,
    QueuedMessage,
    Subject,
    Usage,
)

ConversationId = Annotated[str, Field(min_length=1, max_length=128)]
Content = Annotated[tuple[Part, ...], Field(min_length=1, max_length=64)]
RequestId = Annotated[str, Field(min_length=1, max_length=200)]
Trust = Literal["full", "readOnly", "none"]


class Empty(Contract):
    """No fields."""


class LockInfo(Contract):
    mine: bool
    pid: int | None = None


class ContextInfo(Contract):
    """How full the model's context is, in tokens; `size` is absent when unknown."""

    used: int = 0
    size: int | None = None


class ConversationInfo(Contract):
    """A conversation at a glance."""

    id: str
    title: str
    folders: tuple[str, ...]
    status: ConversationState
    status_reason: PauseReason | None = None
    model: str
    model_label: str
    created_at: str
    updated_at: str
    last_seq: int
    epoch: str | None = None
    turn_id: str | None = None
    message_count: int
    usage: Usage | None = None
    context: ContextInfo = ContextInfo()
    options: dict[str, str]
    queue_length: int
    pending_count: int
    log_uri: str | None = None
    lock: LockInfo


class ToolFilter(Contract):
    """Names of tools. Without `allow` all are offered; `deny` wins."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class StartParams(Contract):
    folders: tuple[str, ...] | None = None
    """URIs or absolute paths; default: the folders the client has open."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    options: dict[str, str] = Field(default_factory=dict)
    content: Content | None = None
    """The first message, sent with delivery auto."""
    client_message_id: RequestId | None = None
    tools: ToolFilter | None = None
    instructions: Annotated[str, Field(max_length=1 << 16)] | None = None
    """More for the system prompt, for this conversation only."""
    max_steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Model calls per turn."""
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """Per turn; only known prices count."""
    ephemeral: bool = False
    """Keep the log in memory only."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    client_request_id: RequestId | None = None


class StartResult(Contract):
    conversation: ConversationInfo
    options: tuple[Option, ...]
    message_id: str | None = None
    turn_id: str | None = None
    duplicate: bool | None = None


class OpenParams(Contract):
    conversation_id: ConversationId
    after_seq: Annotated[int, Field(ge=0)] | None = None
    replay: Literal["none", "items", "events"] = "items"
    limit: Annotated[int, Field(ge=1, le=500)] = 200


class OpenResult(Contract):
    """Everything up to `lastSeq`; live events go on at `lastSeq + 1` after this answer."""

    conversation: ConversationInfo
    options: tuple[Option, ...]
    items: tuple[dict[str, Any], ...] | None = None
    events: tuple[dict[str, Any], ...] | None = None
    first_seq: int
    last_seq: int
    has_more: bool
    pending: tuple[Approval, ...]
    queue: tuple[QueuedMessage, ...]
    repaired: tuple[str, ...] = ()
    """What was wrong with the log and what was done, a sentence each."""


class CloseParams(Contract):
    conversation_id: ConversationId
    if_running: Literal["error", "interrupt", "pause"] = "error"


class ListParams(Contract):
    folder: str | None = None
    query: Annotated[str, Field(max_length=200)] | None = None
    """Part of a title, any case."""
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 50


class ListResult(Contract):
    """Newest first."""

    conversations: tuple[ConversationInfo, ...]
    next_cursor: str | None = None


class ReadParams(Contract):
    conversation_id: ConversationId
    before: str | None = None
    """Id of an item; the page ends right before it."""
    limit: Annotated[int, Field(ge=1, le=500)] = 200


class ReadResult(Contract):
    conversation: ConversationInfo
    items: tuple[dict[str, Any], ...]
    next_before: str | None = None


class EventsParams(Contract):
    conversation_id: ConversationId
    after_seq: Annotated[int, Field(ge=0)] | None = None
    before_seq: Annotated[int, Field(ge=1)] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 500
    types: tuple[str, ...] | None = None


class EventsResult(Contract):
    """Records as they are in the log; `truncated` when more exist on that side."""

    events: tuple[dict[str, Any], ...]
    first_seq: int
    last_seq: int
    epoch: str
    truncated: bool


class SendMessageParams(Contract):
    conversation_id: ConversationId
    content: Content
    delivery: Delivery = "auto"
    client_message_id: RequestId | None = None
    expected_turn_id: str | None = None
    run: bool = True
    wait: Literal["accepted", "completed"] = "accepted"
    client_request_id: RequestId | None = None


class SendMessageResult(Contract):
    message_id: str
    disposition: Literal["started", "steered", "queued", "interruptedAndStarted"]
    turn_id: str | None = None
    queue_position: int | None = None
    turn: Turn | None = None
    """With `wait: completed`, and when the turn was put on hold meanwhile."""
    final_text: str | None = None
    duplicate: bool | None = None


class PauseParams(Contract):
    conversation_id: ConversationId
    when: Literal["step", "now"] = "step"
    client_request_id: RequestId | None = None


class PauseResult(Contract):
    status: ConversationState
    turn_id: str
    duplicate: bool | None = None


class ResumeParams(Contract):
    conversation_id: ConversationId
    message: Content | None = None
    client_request_id: RequestId | None = None


class ResumeResult(Contract):
    turn_id: str | None = None
    duplicate: bool | None = None


class InterruptParams(Contract):
    conversation_id: ConversationId
    turn_id: str | None = None
    clear_queue: bool = False


class InterruptResult(Contract):
    """Comes when the turn has really ended, or after 10 s with status `interrupting`."""

    turn_id: str | None = None
    status: str
    survivors: tuple[int, ...] = ()
    """Process ids that could not be ended."""


class QueueParams(Contract):
    conversation_id: ConversationId
    op: Literal["list", "remove"] = "list"
    message_id: str | None = None


class QueueResult(Contract):
    queue: tuple[QueuedMessage, ...]


class SetOptionParams(Contract):
    conversation_id: ConversationId
    option_id: str
    value: str
    client_request_id: RequestId | None = None


class SetOptionResult(Contract):
    options: tuple[Option, ...]
    duplicate: bool | None = None


class SubscribeParams(Contract):
    conversation_id: ConversationId


class SubscribeResult(Contract):
    last_seq: int


class ApprovalListParams(Contract):
    conversation_id: ConversationId | None = None


class ApprovalListResult(Contract):
    pending: tuple[Approval, ...]


class ApprovalRespondParams(Contract):
    approval_id: str
    digest: str
    option_id: str | None = None
    decision: Decision | None = None
    feedback: Annotated[str, Field(max_length=8000)] | None = None
    edited_subject: Subject | None = None


class ApprovalRespondResult(Contract):
    resolved: bool
    already_resolved: dict[str, Any] | None = None


class OutputReadParams(Contract):
    conversation_id: ConversationId
    output_ref: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=262_144)] = 262_144


class OutputReadResult(Contract):
    """Bytes `offset` to `nextOffset` of the whole output, as text."""

    text: str
    next_offset: int
    total: int


class ToolListParams(Contract):
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
    context_window: int | None = None
    available: bool
    reason: str | None = None


class ModelListResult(Contract):
    models: tuple[ModelInfo, ...]
    default: str | None = None


class ConfigReadParams(Contract):
    section: str | None = None


class ConfigReadResult(Contract):
    """Effective settings; `sources` names where each value came from. Keys show as `***`."""

    value: dict[str, Any]
    sources: dict[str, str]
    problems: tuple[str, ...]


class ConversationLoad(Contract):
    id: str
    status: ConversationState


class DaemonStatusResult(Contract):
    version: str
    pid: int
    uptime_s: float
    rss_bytes: int
    conversations: tuple[ConversationLoad, ...]
    writer_queue_bytes: int
    warnings: tuple[str, ...]


class SetTrustParams(Contract):
    folder: str
    trusted: Trust


class FolderTrust(Contract):
    folder: str
    trusted: Trust


class SetTrustResult(Contract):
    folders: tuple[FolderTrust, ...]
