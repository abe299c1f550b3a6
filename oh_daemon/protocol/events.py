"""The events of a conversation, and the record (log line) that carries one.

A record is one line of `events.jsonl`; the params of `conversation/event` are the same bytes with
`conversationId` and `epoch` in front. Types are only ever added; readers keep unknown ones.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from oh_daemon.protocol.approvals import (
    ActionDecided,
    ApprovalRequested,
    ApprovalResolved,
    InputRequested,
    InputResolved,
)
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.checkpoints import ChangesPlanned, CheckpointCreated, ConversationRolledBack
from oh_daemon.protocol.items import (
    AgentInfo,
    ErrorInfo,
    FileChange,
    Item,
    ItemStatus,
    Purpose,
    QueuedMessage,
    Risk,
    Turn,
    TurnCause,
)
from oh_daemon.protocol.log_version import LOG_VERSION
from oh_daemon.protocol.status import ConversationState, ForkOrigin, Isolation, PauseReason, Usage


class ConversationCreated(Contract):
    """The first event: everything that later behaviour depends on or that a reader needs."""

    type: Literal["conversation.created"] = "conversation.created"
    title: str
    """Its title."""
    folders: tuple[str, ...]
    """URIs of its folders; the first is the working directory."""
    agent: AgentInfo
    options: dict[str, str]
    """The options that it begins with."""
    max_steps: int
    """Maximum number of model calls per turn."""
    max_cost_usd: float | None = None
    """Maximum cost per turn in US dollars."""
    result_schema: dict[str, Any] | None = None
    """JSON Schema of the `result` that the agent gives to `finish` along with its message."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    forked_from: ForkOrigin | None = None
    parent_id: str | None = None
    """For a sub-agent: the conversation that it works for."""
    isolated: Isolation | None = None
    """What keeps its edits and commands apart from the disk, in an isolated conversation."""


class AgentChanged(Contract):
    """The conversation continues with another model, prompt or set of tools."""

    type: Literal["agent.changed"] = "agent.changed"
    agent: AgentInfo


class ConversationUpdated(Contract):
    """The title, tags, metadata or folders changed, or it was archived or unarchived."""

    type: Literal["conversation.updated"] = "conversation.updated"
    title: str | None = None
    """The new title."""
    archived: bool | None = None
    """Whether it is archived."""
    tags: tuple[str, ...] | None = None
    """The complete new list."""
    metadata: dict[str, Any] | None = None
    """The complete metadata from now on."""
    folders: tuple[str, ...] | None = None
    """URIs of the folders where it works from now on: the folder that holds its log was moved."""


class ConversationClosed(Contract):
    """The conversation was closed cleanly by `conversation/close`; it can be opened again."""

    type: Literal["conversation.closed"] = "conversation.closed"


class StatusChanged(Contract):
    """The status changed; `reason` says why the conversation is paused."""

    type: Literal["status.changed"] = "status.changed"
    from_: Annotated[ConversationState, Field(alias="from")]
    """What it was."""
    to: ConversationState
    """What it is."""
    reason: PauseReason | None = None
    """Why it is paused."""


class MessageQueued(Contract):
    """A message waits: for the next step if it steers, else for a turn of its own."""

    type: Literal["message.queued"] = "message.queued"
    message: QueuedMessage
    """The message that waits."""


class MessageEdited(Contract):
    """The content, position or delivery of a waiting message changed."""

    type: Literal["message.edited"] = "message.edited"
    message: QueuedMessage
    """The message as it is now."""
    position: int
    """Its position in the queue from now on."""


class MessageDequeued(Contract):
    """A message left the queue: it starts a turn, steers the running one, or was removed."""

    type: Literal["message.dequeued"] = "message.dequeued"
    message_id: str
    outcome: Literal["started", "steered", "removed"]
    """What became of it."""


class MessageRefused(Contract):
    """A hook refused the message that this item shows; the model never gets it."""

    type: Literal["message.refused"] = "message.refused"
    reason: str
    """What the hook said."""


class TurnStarted(Contract):
    """The agent starts to work on a message, a resume, a condensation, or what a job changed."""

    type: Literal["turn.started"] = "turn.started"
    cause: TurnCause
    """What the turn is for."""
    options: dict[str, str] | None = None
    """Override the conversation's options until the turn has ended."""


class TurnPaused(Contract):
    """The turn is paused; `conversation/resume` or a message resumes it."""

    type: Literal["turn.paused"] = "turn.paused"
    reason: PauseReason
    """Why it is paused."""


class TurnResumed(Contract):
    """The paused turn continues."""

    type: Literal["turn.resumed"] = "turn.resumed"


class TurnCompleted(Contract):
    """The turn ended; this is its last event."""

    type: Literal["turn.completed"] = "turn.completed"
    turn: Turn


class PauseRequested(Contract):
    """A client asked to pause, after the current step or now."""

    type: Literal["pause.requested"] = "pause.requested"
    when: Literal["step", "now"]
    """After the current step, or now."""


class InterruptRequested(Contract):
    """A client asked to end the turn now."""

    type: Literal["interrupt.requested"] = "interrupt.requested"


class CondensationRequested(Contract):
    """A client asked to condense the part of the conversation that is sent to the model."""

    type: Literal["condensation.requested"] = "condensation.requested"
    instructions: str | None = None
    """What the summary must contain in particular."""


class ItemStarted(Contract):
    """An item started. For a tool item, this is the action, logged durably before the tool runs."""

    type: Literal["item.started"] = "item.started"
    item: Item
    """The item as it begins."""


class ItemUpdated(Contract):
    """The status changed; the other fields are set if the user edited the action to allow it."""

    type: Literal["item.updated"] = "item.updated"
    status: ItemStatus
    """The new status."""
    args: dict[str, Any] | None = None
    """What the tool gets."""
    title: str | None = None
    """The new title."""
    command: str | None = None
    risk: Risk | None = None
    summary: str | None = None
    """The model's own summary."""


class ItemCompleted(Contract):
    """The item in its final state. For a tool item, this is the observation."""

    type: Literal["item.completed"] = "item.completed"
    item: Item
    """The whole item."""


class ChangesUpdated(Contract):
    """All files that differ from before the turn, each with its first and last hash."""

    type: Literal["changes.updated"] = "changes.updated"
    files: tuple[FileChange, ...]
    """One change for each file."""
    by_subagent: tuple[FileChange, ...] | None = None
    """The changes that a sub-agent has just made, for the review."""


class ChangesReviewed(Contract):
    """The user settled changes to a file; a hash is absent if there is no file."""

    type: Literal["changes.reviewed"] = "changes.reviewed"
    uri: str
    decision: Literal["kept", "undone", "applied", "discarded"]
    """`applied` and `discarded` in an isolated conversation, otherwise `kept` and `undone`."""
    base: str | None = None
    """Hash of the text without pending changes, from now on."""
    now: str | None = None
    """Hash of that text with the agent's pending changes; equal to `base` when none are left."""


class UsageUpdated(Contract):
    """Usage of one model call; the totals are sums of these."""

    type: Literal["usage.updated"] = "usage.updated"
    usage: Usage
    model: str
    """The model that answered."""
    latency_ms: int
    """Milliseconds until the answer was there."""
    context_used: int = 0
    """Number of tokens of the prompt just sent."""
    context_size: int | None = None
    """The model's window in tokens, if it is known."""
    purpose: Purpose | None = None
    """Absent for a step; only steps count against `maxSteps`. A call with purpose `subagent` is in
    the log of the sub-agent's own conversation too."""


class OptionsChanged(Contract):
    """The options that changed, with their values from the next step on."""

    type: Literal["options.changed"] = "options.changed"
    values: dict[str, str]
    """The new values by option."""


class RetryScheduled(Contract):
    """A model call failed and is retried; deltas of the items in `dropItemIds` no longer count."""

    type: Literal["retry.scheduled"] = "retry.scheduled"
    attempt: int
    """Number of the attempt that comes."""
    max_attempts: int
    """How many there are at most."""
    delay_ms: int
    """Milliseconds until then."""
    error: ErrorInfo
    """Why the last one failed."""
    drop_item_ids: tuple[str, ...] = ()
    """Items of the failed attempt."""
    model: str | None = None
    """Another model that is tried instead: a fallback of the profile."""


class ErrorRaised(Contract):
    """A failure that the turn could not recover from."""

    type: Literal["error.raised"] = "error.raised"
    error: ErrorInfo


class Notice(Contract):
    """Something worth knowing, for instance that the log can be written again."""

    type: Literal["notice"] = "notice"
    severity: Literal["info", "warning", "error"]
    title: str
    description: str | None = None


StuckPattern = Literal["wrongCalls", "identicalCalls", "sameError", "alternatingCalls", "monologue"]


class StuckDetected(Contract):
    """The agent repeats itself: it was told to try another way, or its turn was ended."""

    type: Literal["stuck.detected"] = "stuck.detected"
    pattern: StuckPattern
    """How it repeats itself."""
    outcome: Literal["nudged", "stopped"]
    """Whether it was told, or its turn ended."""


class UnknownEvent(Contract):
    """An event of a later version; it survives a round trip."""

    model_config = ConfigDict(extra="allow")
    type: str
    """A type that this version does not know."""


KnownEvent = Annotated[
    ConversationCreated
    | AgentChanged
    | ConversationUpdated
    | ConversationClosed
    | StatusChanged
    | MessageQueued
    | MessageEdited
    | MessageDequeued
    | MessageRefused
    | TurnStarted
    | TurnPaused
    | TurnResumed
    | TurnCompleted
    | PauseRequested
    | InterruptRequested
    | CondensationRequested
    | ItemStarted
    | ItemUpdated
    | ItemCompleted
    | ApprovalRequested
    | ApprovalResolved
    | InputRequested
    | InputResolved
    | ActionDecided
    | ChangesPlanned
    | ChangesUpdated
    | ChangesReviewed
    | CheckpointCreated
    | ConversationRolledBack
    | UsageUpdated
    | OptionsChanged
    | RetryScheduled
    | ErrorRaised
    | Notice
    | StuckDetected,
    Field(discriminator="type"),
]
Event = KnownEvent | UnknownEvent


class Cause(Contract):
    """The client request that caused an event, kept so that a repeated request is recognised."""

    method: str
    """The method."""
    client_request_id: str
    body_hash: str
    """Hash of the other params."""
    result: dict[str, Any]
    """The answer."""


class Record(Contract):
    """One line of the log."""

    v: Literal[2] = LOG_VERSION
    """Version of the log."""
    seq: int
    """Number of the event, from 1."""
    ts: str
    """When it was appended, in UTC."""
    turn_id: str | None = None
    """The turn that it belongs to, if any."""
    item_id: str | None = None
    """The item that it is about, if any."""
    cause: Cause | None = None
    event: Annotated[Event, Field(union_mode="left_to_right")]
    """What happened."""
