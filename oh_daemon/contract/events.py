"""Every fact a conversation can hold, and the record (log line) that carries one.

A record is one line of `events.jsonl`; the params of `conversation/event` are the same bytes with
`conversationId` and `epoch` in front. Types are only ever added; readers keep unknown ones.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from oh_daemon.contract.approvals import Approval, Subject
from oh_daemon.contract.base import Contract
from oh_daemon.contract.checkpoints import CheckpointCreated, ConversationRolledBack
from oh_daemon.contract.inputs import InputAction, InputRequest
from oh_daemon.contract.items import (
    ConversationState,
    FileChange,
    Item,
    ItemStatus,
    PauseReason,
    Purpose,
    QueuedMessage,
    Risk,
    Scope,
    Usage,
)
from oh_daemon.contract.turns import AgentInfo, ErrorInfo, ForkOrigin, Turn

LOG_VERSION = 1


class ConversationCreated(Contract):
    """The first event: all that later behaviour depends on and that a reader may ask for."""

    type: Literal["conversation.created"] = "conversation.created"
    title: str
    folders: tuple[str, ...]
    agent: AgentInfo
    options: dict[str, str]
    max_steps: int
    max_cost_usd: float | None = None
    result_schema: dict[str, Any] | None = None
    """Of what `finish` gives beside its message."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    forked_from: ForkOrigin | None = None
    parent_id: str | None = None
    """The conversation that this one, a sub-agent's, works for."""


class AgentChanged(Contract):
    """The conversation goes on with another model, prompt or set of tools."""

    type: Literal["agent.changed"] = "agent.changed"
    agent: AgentInfo


class ConversationUpdated(Contract):
    """It has another title, tags or metadata, or was put away or fetched back."""

    type: Literal["conversation.updated"] = "conversation.updated"
    title: str | None = None
    archived: bool | None = None
    tags: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    """All of it, as it is from now on."""


class ConversationClosed(Contract):
    """A clean end by `conversation/close`; it can be opened again."""

    type: Literal["conversation.closed"] = "conversation.closed"


class StatusChanged(Contract):
    """The status moved; `reason` says why it is paused."""

    type: Literal["status.changed"] = "status.changed"
    from_: Annotated[ConversationState, Field(alias="from")]
    to: ConversationState
    reason: PauseReason | None = None


class MessageQueued(Contract):
    """A message waits: for the next step when it steers, else for its own turn."""

    type: Literal["message.queued"] = "message.queued"
    message: QueuedMessage


class MessageEdited(Contract):
    """A waiting message has another text, place or delivery."""

    type: Literal["message.edited"] = "message.edited"
    message: QueuedMessage
    position: int
    """Its place in the queue from now on."""


class MessageDequeued(Contract):
    """It left the queue: it starts a turn, steers the running one, or was removed."""

    type: Literal["message.dequeued"] = "message.dequeued"
    message_id: str
    outcome: Literal["started", "steered", "removed"]


class MessageRefused(Contract):
    """A hook refused the message that is this item: the model never gets it."""

    type: Literal["message.refused"] = "message.refused"
    reason: str


class TurnStarted(Contract):
    """The agent begins to work, on a message or on what an ended turn left."""

    type: Literal["turn.started"] = "turn.started"
    cause: Literal["message", "resume", "condense"]
    options: dict[str, str] | None = None
    """Laid over the conversation's until the turn has ended."""


class TurnPaused(Contract):
    """The turn is on hold; `conversation/resume` or a message goes on with it."""

    type: Literal["turn.paused"] = "turn.paused"
    reason: PauseReason


class TurnResumed(Contract):
    """The same turn goes on."""

    type: Literal["turn.resumed"] = "turn.resumed"


class TurnCompleted(Contract):
    """The last event of its turn."""

    type: Literal["turn.completed"] = "turn.completed"
    turn: Turn


class PauseRequested(Contract):
    """Somebody asked to pause, after the step under way or now."""

    type: Literal["pause.requested"] = "pause.requested"
    when: Literal["step", "now"]


class InterruptRequested(Contract):
    """Somebody asked to end the turn now."""

    type: Literal["interrupt.requested"] = "interrupt.requested"


class CondensationRequested(Contract):
    """Somebody asked to condense what the model gets of this conversation."""

    type: Literal["condensation.requested"] = "condensation.requested"
    instructions: str | None = None


class ItemStarted(Contract):
    """For a tool item this is the action: it is durable before the tool runs."""

    type: Literal["item.started"] = "item.started"
    item: Item


class ItemUpdated(Contract):
    """The status moves; the rest comes when the user edited the action before allowing it."""

    type: Literal["item.updated"] = "item.updated"
    status: ItemStatus
    args: dict[str, Any] | None = None
    title: str | None = None
    command: str | None = None
    risk: Risk | None = None
    summary: str | None = None


class ItemCompleted(Contract):
    """The item as it stays. For a tool item this is the observation."""

    type: Literal["item.completed"] = "item.completed"
    item: Item


class ApprovalRequested(Contract):
    """An action is held until somebody decides."""

    type: Literal["approval.requested"] = "approval.requested"
    approval: Approval


class Decision(Contract):
    effect: Literal["allow", "reject"]
    scope: Scope = "once"


class ApprovalResolved(Contract):
    """It was decided, and by whom; `editedSubject` is what runs instead."""

    type: Literal["approval.resolved"] = "approval.resolved"
    approval_id: str
    decision: Decision
    by: Literal["user", "superseded", "interrupted", "noClient", "changed"]
    feedback: str | None = None
    edited_subject: Subject | None = None


class InputRequested(Contract):
    """The agent asks the user something and waits."""

    type: Literal["input.requested"] = "input.requested"
    input: InputRequest


class InputResolved(Contract):
    """It was answered, and how; by a `message` when the user typed into the chat instead."""

    type: Literal["input.resolved"] = "input.resolved"
    input_id: str
    action: InputAction
    content: str | None = None
    by: Literal["user", "message", "interrupted", "changed"]


class ActionDecided(Contract):
    """Why an action ran or not without asking: the rule and the digest it covers."""

    type: Literal["action.decided"] = "action.decided"
    effect: Literal["allow", "reject"]
    rule: str
    risk: Risk
    reasons: tuple[str, ...] = ()
    digest: str


class ChangesUpdated(Contract):
    """All files the turn has changed so far, each with its first and last hash."""

    type: Literal["changes.updated"] = "changes.updated"
    files: tuple[FileChange, ...]
    by_subagent: tuple[FileChange, ...] | None = None
    """What of it a sub-agent has just changed, for the review."""


class ChangesReviewed(Contract):
    """The user kept or reverted changes of a file; hashes of texts, absent for no file."""

    type: Literal["changes.reviewed"] = "changes.reviewed"
    uri: str
    decision: Literal["accepted", "reverted"]
    base: str | None = None
    """What counts as accepted from now on."""
    now: str | None = None
    """What the agent's changes come to from now on; the same when none is left to review."""


class UsageUpdated(Contract):
    """One model call's usage; the totals are sums of these."""

    type: Literal["usage.updated"] = "usage.updated"
    usage: Usage
    model: str
    latency_ms: int
    context_used: int = 0
    """Tokens of the prompt just sent."""
    context_size: int | None = None
    purpose: Purpose | None = None
    """Absent for a step; only steps count against `maxSteps`. That of a `subagent` is in the log of
    its own conversation too."""


class OptionsChanged(Contract):
    """Options as they are from the next step on; only those that changed."""

    type: Literal["options.changed"] = "options.changed"
    values: dict[str, str]


class RetryScheduled(Contract):
    """A model call failed and is tried again; deltas of `drop_item_ids` no longer count."""

    type: Literal["retry.scheduled"] = "retry.scheduled"
    attempt: int
    max_attempts: int
    delay_ms: int
    error: ErrorInfo
    drop_item_ids: tuple[str, ...] = ()
    model: str | None = None
    """Another model, which is tried instead: a fallback of the profile."""


class ErrorRaised(Contract):
    """A failure that the turn could not get over."""

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
    """The agent goes in circles: it was told to try another way, or its turn was stopped."""

    type: Literal["stuck.detected"] = "stuck.detected"
    pattern: StuckPattern
    outcome: Literal["nudged", "stopped"]


class UnknownEvent(Contract):
    """An event of a later version; it survives a round trip."""

    model_config = ConfigDict(extra="allow")
    type: str


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
    """The client's request behind an event, kept so that a repeated request is recognised."""

    method: str
    client_request_id: str
    body_hash: str
    result: dict[str, Any]


class Record(Contract):
    """One line of the log."""

    v: Literal[1] = LOG_VERSION
    seq: int
    ts: str
    turn_id: str | None = None
    item_id: str | None = None
    cause: Cause | None = None
    event: Annotated[Event, Field(union_mode="left_to_right")]
