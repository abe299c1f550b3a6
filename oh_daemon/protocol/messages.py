"""Parameters and results of the `conversation/*` methods; `daemon_messages` has the others.

Requests that start work take `clientRequestId`; a repeated id gets the stored result.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from oh_daemon.protocol.approvals import Approval, InputRequest
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.client_tools import ClientTools
from oh_daemon.protocol.content import Part, TextPart
from oh_daemon.protocol.events import Record
from oh_daemon.protocol.items import Delivery, Item, PlanItem, QueuedMessage, Turn
from oh_daemon.protocol.status import ConversationState
from oh_daemon.protocol.summaries import ConversationId, ConversationInfo


def _says_something(content: tuple[Part, ...]) -> tuple[Part, ...]:
    if all(isinstance(part, TextPart) and not part.text.strip() for part in content):
        raise ValueError("says nothing; no turn is begun, or steered, by a message without words")
    return content


Content = Annotated[
    tuple[Part, ...], Field(min_length=1, max_length=64), AfterValidator(_says_something)
]
Tag = Annotated[str, Field(min_length=1, max_length=50)]
RequestId = Annotated[str, Field(min_length=1, max_length=200)]


class Empty(Contract):
    """No fields."""


class OfConversation(Contract):
    """Parameters of a request about one conversation."""

    conversation_id: ConversationId


class StartsWork(OfConversation):
    """Parameters of a request that changes something; with the same id again, it does nothing."""

    client_request_id: RequestId | None = None


class Conflict(Contract):
    """A file that was left unchanged, and why."""

    uri: str
    reason: str
    """Why it was left alone."""


class Choice(Contract):
    value: str
    """What `conversation/setOption` takes."""
    label: str


class Option(Contract):
    """A setting of one conversation that a client may show as a picker."""

    id: str
    """What `conversation/setOption` takes as `optionId`."""
    name: str
    """Its name for people."""
    category: Literal["mode", "approval", "model", "effort"]
    """What it is about."""
    type: Literal["select"] = "select"
    value: str
    """The present value."""
    choices: tuple[Choice, ...] = ()
    """The values that can be chosen; others may be valid, too (`model`)."""


class ConversationResult(Contract):
    conversation: ConversationInfo
    """The conversation as it is now."""


class ToolFilter(Contract):
    """Tool names, in which `*` matches anything. Without `allow`, all are offered; `deny` wins."""

    allow: tuple[str, ...] | None = None
    """Offer only these."""
    deny: tuple[str, ...] = ()
    """Do not offer these."""


class StartParams(Contract):
    """Create a conversation, subscribe to it and, with `content`, start its first turn."""

    folders: tuple[str, ...] | None = None
    """URIs or absolute paths; default: the folders the client has open."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Its title; by default the first line of the message."""
    options: dict[str, str] = Field(default_factory=dict)
    """Options by id, such as `mode` and `model`; the others are as in the settings."""
    content: Content | None = None
    """The first message, sent with delivery `auto`."""
    client_message_id: RequestId | None = None
    """The client's own id of the first message."""
    tools: ToolFilter | None = None
    client_tools: ClientTools | None = None
    """Tools that this client runs itself, see `tool/call`."""
    result_schema: dict[str, Any] | None = None
    """JSON Schema of the `result` that the agent must give to `finish` along with its message."""
    instructions: Annotated[str, Field(max_length=1 << 16)] | None = None
    """Text to add to the system prompt of this conversation."""
    max_steps: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Maximum number of model calls per turn."""
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """Maximum cost per turn in US dollars; only calls with a known price count."""
    isolated: bool = False
    """Keep edits and commands apart from the disk until `changes/apply` applies them."""
    ephemeral: bool = False
    """Keep the log in memory only."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    client_request_id: RequestId | None = None


class StartResult(Contract):
    conversation: ConversationInfo
    """The new conversation."""
    options: tuple[Option, ...]
    """All options with their values."""
    message_id: str | None = None
    """Id of the first message, if there was one."""
    turn_id: str | None = None
    """Id of the first turn, if one was started."""
    duplicate: bool | None = None


class OpenParams(OfConversation):
    """Open a conversation from its log, repair it after a crash, and subscribe to it."""

    after_seq: Annotated[int, Field(ge=0)] | None = None
    """With `events`: return those after this one."""
    replay: Literal["none", "items", "events"] = "items"
    """What of its past to return."""
    limit: Annotated[int, Field(ge=1, le=500)] = 200
    client_tools: ClientTools | None = None
    """Replaces the tools that this client provided before."""


class OpenResult(Contract):
    """The conversation up to `lastSeq`; live events continue at `lastSeq + 1` after this answer.

    With `hasMore` this is one page; `conversation/events` and `conversation/read` give the rest.
    """

    conversation: ConversationInfo
    """The conversation as it is now."""
    options: tuple[Option, ...]
    """All options with their values."""
    items: tuple[Item, ...] | None = None
    """With `items`: the last ones, in their present state."""
    plan: PlanItem | None = None
    """The agent's last plan, if it comes before `items`, and no message of the user in between."""
    events: tuple[Record, ...] | None = None
    """With `events`: the records."""
    first_seq: int
    last_seq: int
    """The last `seq` of the log, also if the page ends before it."""
    has_more: bool
    """Whether there are more items before, or more events after."""
    pending: tuple[Approval | InputRequest, ...]
    """What waits for the user, oldest first."""
    queue: tuple[QueuedMessage, ...]
    """The messages that wait."""
    repaired: tuple[str, ...] = ()
    """What was wrong with the log and how it was repaired, one sentence for each problem."""


class CloseParams(OfConversation):
    """End the conversation's worker and unlock its log; the log is kept."""

    if_running: Literal["error", "interrupt", "pause"] = "error"
    """What to do if a turn is open: refuse, end it, or keep what waits."""


class UpdateParams(OfConversation):
    """Rename, tag or archive a conversation, open or not."""

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """The new title."""
    archived: bool | None = None
    """Whether it is archived."""
    tags: Annotated[tuple[Tag, ...], Field(max_length=20)] | None = None
    """The complete new list; null removes all tags."""
    metadata: Annotated[dict[str, Any], Field(max_length=100)] | None = None
    """Merged into the present metadata; null removes a key or, instead of an object, all keys."""


class DeleteParams(OfConversation):
    """Move the conversation's log to the trash, or remove it permanently."""

    permanent: bool = False
    """Remove it, instead of moving it to the trash."""


class ReadParams(OfConversation):
    """Read items of a conversation without opening or locking it."""

    before: str | None = None
    """Id of an item; the page ends just before it."""
    limit: Annotated[int, Field(ge=1, le=500)] = 200


class ReadResult(Contract):
    conversation: ConversationInfo
    items: tuple[Item, ...]
    """Oldest first."""
    next_before: str | None = None
    """`before` for the page before this one; absent if there is none."""


class EventsParams(OfConversation):
    """Read a page of records as they are in the log."""

    after_seq: Annotated[int, Field(ge=0)] | None = None
    """Return those after this one."""
    before_seq: Annotated[int, Field(ge=1)] | None = None
    """Without `afterSeq`: return the last ones before this one."""
    limit: Annotated[int, Field(ge=1, le=500)] = 500
    types: tuple[str, ...] | None = None
    """Return only these types of events."""


class EventsResult(Contract):
    """Records as they are in the log; `truncated` says that there are more in that direction."""

    events: tuple[Record, ...]
    """Oldest first."""
    first_seq: int
    last_seq: int
    epoch: str
    truncated: bool
    """Whether there are more in the same direction."""


class Overrides(Contract):
    options: dict[str, str] = Field(default_factory=dict)
    """Values by option."""


class SendMessageParams(StartsWork):
    """Send a message: start a turn, steer the running one, queue, or interrupt and start."""

    content: Content
    """What the message is made of."""
    overrides: Overrides = Overrides()
    """Options for the turn that this message starts; a message that steers cannot have any."""
    delivery: Delivery = "auto"
    """What to do if a turn is open; see the table."""
    client_message_id: RequestId | None = None
    expected_turn_id: str | None = None
    run: bool = True
    """If false, the message waits for the next step, or for the next message's turn."""
    wait: Literal["accepted", "completed"] = "accepted"
    """When to answer: once it is accepted, or once its turn has ended or paused."""


class SendMessageResult(Contract):
    message_id: str
    disposition: Literal["started", "steered", "queued", "interruptedAndStarted"]
    """What became of the message."""
    turn_id: str | None = None
    """The turn that it started or steers."""
    queue_position: int | None = None
    """The place among all waiting messages; 0 is next."""
    turn: Turn | None = None
    """With `wait: completed`: the turn, once it has ended or was paused."""
    final_text: str | None = None
    """What the agent said at the end of that turn."""
    duplicate: bool | None = None


class PauseParams(StartsWork):
    """Pause the turn after the current step, or now."""

    when: Literal["step", "now"] = "step"
    """After the current step, or now."""


class PauseResult(Contract):
    status: ConversationState
    """`pausing`, or `paused` if it took effect at once."""
    turn_id: str
    duplicate: bool | None = None


class ResumeParams(StartsWork):
    """Resume the paused turn, or continue after a turn that ended early."""

    message: Content | None = None
    """A message to go on with."""


class ResumeResult(Contract):
    turn_id: str | None = None
    """The turn that goes on or was started."""
    duplicate: bool | None = None


class InterruptParams(OfConversation):
    """End the turn now, with its model call, any waiting, and the processes of its tools."""

    turn_id: str | None = None
    """Only interrupt this turn."""
    clear_queue: bool = False
    """Remove all waiting messages, also if no turn is open."""


class InterruptResult(Contract):
    """Sent when the turn has really ended, or after 10 s with status `interrupting`."""

    turn_id: str | None = None
    """The turn that was interrupted."""
    status: ConversationState | Literal["interrupted"]
    """`interrupted`, `interrupting`, or the conversation's status if no turn was open."""


class CondenseParams(StartsWork):
    """Replace older steps by a summary now, in the open turn or in a turn of its own."""

    instructions: Annotated[str, Field(max_length=10_000)] | None = None
    """What the summary must contain in particular."""


class CondenseResult(Contract):
    turn_id: str
    """The turn in which it happens."""
    duplicate: bool | None = None


class QueueParams(OfConversation):
    """List, edit, remove or move waiting messages, or deliver one now."""

    op: Literal["list", "edit", "remove", "move", "sendNow"] = "list"
    """What to do."""
    message_id: str | None = None
    """Required for every `op` except `list`."""
    content: Content | None = None
    """For `edit`."""
    position: Annotated[int, Field(ge=0)] | None = None
    """For `move`; 0 is the front of the queue."""


class QueueResult(Contract):
    queue: tuple[QueuedMessage, ...]
    """The queue afterwards; the first is next."""


class SetOptionParams(StartsWork):
    """Set the mode, approval policy, model or effort, from the next step on."""

    option_id: str
    """Id of the option."""
    value: str
    """The new value."""


class SetOptionResult(Contract):
    options: tuple[Option, ...]
    """All options with their present values."""
    duplicate: bool | None = None


class SubscribeParams(OfConversation):
    """Receive the events of an open conversation from now on."""


class UnsubscribeParams(OfConversation):
    """Receive no more events of this conversation."""


class SubscribeResult(Contract):
    last_seq: int
    """Events after this one follow."""
