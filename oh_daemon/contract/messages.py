"""Parameters and results of the `conversation/*` methods; `daemon_messages` has the others.

Requests that start work take `clientRequestId`: the same one again gets the stored result.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.approvals import Approval
from oh_daemon.contract.base import Contract
from oh_daemon.contract.client_tools import ClientTools
from oh_daemon.contract.content import Part
from oh_daemon.contract.inputs import InputRequest
from oh_daemon.contract.items import ConversationState, Delivery, PauseReason, QueuedMessage, Usage
from oh_daemon.contract.turns import ForkOrigin, Turn

ConversationId = Annotated[str, Field(min_length=1, max_length=128)]
Content = Annotated[tuple[Part, ...], Field(min_length=1, max_length=64)]
Tag = Annotated[str, Field(min_length=1, max_length=50)]
RequestId = Annotated[str, Field(min_length=1, max_length=200)]


class Empty(Contract):
    """No fields."""


class OfConversation(Contract):
    """Parameters of a request about one conversation."""

    conversation_id: ConversationId


class StartsWork(OfConversation):
    """Such a request that changes something: repeated with the same id, it does nothing."""

    client_request_id: RequestId | None = None


class Conflict(Contract):
    """A file that stays as it is, and why."""

    uri: str
    reason: str


class Choice(Contract):
    value: str
    label: str


class Option(Contract):
    """A setting of one conversation that a client may show as a picker."""

    id: str
    name: str
    category: Literal["mode", "model", "thoughtLevel", "approval", "modelConfig"]
    type: Literal["select", "boolean"] = "select"
    value: str
    choices: tuple[Choice, ...] = ()


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
    archived: bool = False
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    queue_length: int
    pending_count: int
    lock: LockInfo
    forked_from: ForkOrigin | None = None
    parent_id: str | None = None
    """Of a sub-agent: the conversation that it works for."""


class ConversationResult(Contract):
    conversation: ConversationInfo


class ToolFilter(Contract):
    """Names of tools, with `*` for any. Without `allow` all are offered; `deny` wins."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class StartParams(Contract):
    """Create a conversation, subscribe to it and, with `content`, start its first turn."""

    folders: tuple[str, ...] | None = None
    """URIs or absolute paths; default: the folders the client has open."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    options: dict[str, str] = Field(default_factory=dict)
    content: Content | None = None
    """The first message, sent with delivery auto."""
    client_message_id: RequestId | None = None
    tools: ToolFilter | None = None
    client_tools: ClientTools | None = None
    """Tools that this client runs itself, see `tool/call`."""
    result_schema: dict[str, Any] | None = None
    """JSON Schema of what `finish` must give beside its message: the `result` of the turn."""
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


class OpenParams(OfConversation):
    """Open a conversation from its log, repair what a crash left, subscribe to it."""

    after_seq: Annotated[int, Field(ge=0)] | None = None
    replay: Literal["none", "items", "events"] = "items"
    limit: Annotated[int, Field(ge=1, le=500)] = 200
    client_tools: ClientTools | None = None
    """In place of those that this client gave before."""


class OpenResult(Contract):
    """Everything up to `lastSeq`; live events go on at `lastSeq + 1` after this answer.

    With `hasMore` this is one page of it, and `conversation/events` or `read` has the rest.
    """

    conversation: ConversationInfo
    options: tuple[Option, ...]
    items: tuple[dict[str, Any], ...] | None = None
    events: tuple[dict[str, Any], ...] | None = None
    first_seq: int
    last_seq: int
    has_more: bool
    pending: tuple[Approval | InputRequest, ...]
    queue: tuple[QueuedMessage, ...]
    repaired: tuple[str, ...] = ()
    """What was wrong with the log and what was done, a sentence each."""


class CloseParams(OfConversation):
    """End its worker and free its log; the log stays."""

    if_running: Literal["error", "interrupt", "pause"] = "error"


class UpdateParams(OfConversation):
    """Rename, tag or put away a conversation, also one that is not open."""

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    archived: bool | None = None
    tags: Annotated[tuple[Tag, ...], Field(max_length=20)] | None = None
    """All of them; null is none."""
    metadata: Annotated[dict[str, Any], Field(max_length=100)] | None = None
    """Laid over what is there; null clears, a single key or everything."""


class DeleteParams(OfConversation):
    """Move its log to the trash, or remove it for good."""

    permanent: bool = False


class ListParams(Contract):
    """Conversations of the open folders."""

    folder: str | None = None
    query: Annotated[str, Field(max_length=200)] | None = None
    """Part of a title, any case."""
    archived: bool = False
    """List those that were put away instead of the others."""
    parent_id: ConversationId | None = None
    """List the sub-agents of this conversation; they are in no other list."""
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 50


class ListResult(Contract):
    """Newest first."""

    conversations: tuple[ConversationInfo, ...]
    next_cursor: str | None = None


class ReadParams(OfConversation):
    """Items of a conversation, without opening or locking it."""

    before: str | None = None
    """Id of an item; the page ends right before it."""
    limit: Annotated[int, Field(ge=1, le=500)] = 200


class ReadResult(Contract):
    conversation: ConversationInfo
    items: tuple[dict[str, Any], ...]
    next_before: str | None = None


class EventsParams(OfConversation):
    """A page of records, as they are in the log."""

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


class Overrides(Contract):
    options: dict[str, str] = Field(default_factory=dict)


class SendMessageParams(StartsWork):
    """Start a turn, steer the running one, queue, or interrupt and start."""

    content: Content
    overrides: Overrides = Overrides()
    """What holds for the turn of this message alone; it must have one of its own."""
    delivery: Delivery = "auto"
    client_message_id: RequestId | None = None
    expected_turn_id: str | None = None
    run: bool = True
    wait: Literal["accepted", "completed"] = "accepted"


class SendMessageResult(Contract):
    message_id: str
    disposition: Literal["started", "steered", "queued", "interruptedAndStarted"]
    turn_id: str | None = None
    queue_position: int | None = None
    turn: Turn | None = None
    """With `wait: completed`, and when the turn was put on hold meanwhile."""
    final_text: str | None = None
    duplicate: bool | None = None


class PauseParams(StartsWork):
    """Hold the turn after the step under way, or now."""

    when: Literal["step", "now"] = "step"


class PauseResult(Contract):
    status: ConversationState
    turn_id: str
    duplicate: bool | None = None


class ResumeParams(StartsWork):
    """Go on with the held turn, or continue after one that ended early."""

    message: Content | None = None


class ResumeResult(Contract):
    turn_id: str | None = None
    duplicate: bool | None = None


class InterruptParams(OfConversation):
    """End the turn now: the model's socket, the wait, the tool's processes."""

    turn_id: str | None = None
    clear_queue: bool = False


class InterruptResult(Contract):
    """Comes when the turn has really ended, or after 10 s with status `interrupting`."""

    turn_id: str | None = None
    status: str
    survivors: tuple[int, ...] = ()
    """Process ids that could not be ended."""


class CondenseParams(StartsWork):
    """Replace older steps by a summary now, in the open turn or in one of its own."""

    instructions: Annotated[str, Field(max_length=10_000)] | None = None
    """What the summary must hold in particular."""


class CondenseResult(Contract):
    turn_id: str
    duplicate: bool | None = None


class QueueParams(OfConversation):
    """List, edit, remove or move waiting messages, or deliver one now."""

    op: Literal["list", "edit", "remove", "move", "sendNow"] = "list"
    message_id: str | None = None
    """For every `op` but `list`."""
    content: Content | None = None
    """For `edit`."""
    position: Annotated[int, Field(ge=0)] | None = None
    """For `move`; 0 is next."""


class QueueResult(Contract):
    queue: tuple[QueuedMessage, ...]


class SetOptionParams(StartsWork):
    """Set the mode, the approval policy or the model from the next step on."""

    option_id: str
    value: str


class SetOptionResult(Contract):
    options: tuple[Option, ...]
    duplicate: bool | None = None


class SubscribeParams(OfConversation):
    """Get the events of an open conversation from now on."""


class UnsubscribeParams(OfConversation):
    """Get no more events of this conversation."""


class SubscribeResult(Contract):
    last_seq: int
