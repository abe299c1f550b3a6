"""The events of a conversation, and the record (log line) that carries one.

A record is one line of `events.jsonl`; the params of `conversation/event` are the same bytes with
`conversationId` and `epoch` in front. Types are only ever added; readers keep unknown ones.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from oh_daemon.contract.approvals import Approval, InputAction, InputRequest, RuleCode, Subject
from oh_daemon.contract.base import Contract
from oh_daemon.contract.checkpoints import CheckpointCreated, ConversationRolledBack, LandingPlanned
from oh_daemon.contract.items import (
    AgentInfo,
    ErrorInfo,
    FileChange,
    Item,
    ItemStatus,
    Purpose,
    QueuedMessage,
    Risk,
    Scope,
    Turn,
    TurnCause,
)
from oh_daemon.contract.status import ConversationState, ForkOrigin, Isolation, PauseReason, Usage

LOG_VERSION = 1


class ConversationCreated(Contract):
    """The first event: everything that later behaviour depends on or that a reader needs."""

    type: Literal["conversation.created"] = "conversation.created"
    title: str
    folders: tuple[str, ...]
    agent: AgentInfo
    options: dict[str, str]
    max_steps: int
    max_cost_usd: float | None = None
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
    archived: bool | None = None
    tags: tuple[str, ...] | None = None
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
    to: ConversationState
    reason: PauseReason | None = None


class MessageQueued(Contract):
    """A message waits: for the next step if it steers, else for a turn of its own."""

    type: Literal["message.queued"] = "message.queued"
    message: QueuedMessage


class MessageEdited(Contract):
    """The content, position or delivery of a waiting message changed."""

    type: Literal["message.edited"] = "message.edited"
    message: QueuedMessage
    position: int
    """Its position in the queue from now on."""


class MessageDequeued(Contract):
    """A message left the queue: it starts a turn, steers the running one, or was removed."""

    type: Literal["message.dequeued"] = "message.dequeued"
    message_id: str
    outcome: Literal["started", "steered", "removed"]


class MessageRefused(Contract):
    """A hook refused the message that this item shows; the model never gets it."""

    type: Literal["message.refused"] = "message.refused"
    reason: str


class TurnStarted(Contract):
    """The agent starts to work on a message, a resume, a condensation, or what a job changed."""

    type: Literal["turn.started"] = "turn.started"
    cause: TurnCause
    options: dict[str, str] | None = None
    """Override the conversation's options until the turn has ended."""


class TurnPaused(Contract):
    """The turn is paused; `conversation/resume` or a message resumes it."""

    type: Literal["turn.paused"] = "turn.paused"
    reason: PauseReason


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


class InterruptRequested(Contract):
    """A client asked to end the turn now."""

    type: Literal["interrupt.requested"] = "interrupt.requested"


class CondensationRequested(Contract):
    """A client asked to condense the part of the conversation that is sent to the model."""

    type: Literal["condensation.requested"] = "condensation.requested"
    instructions: str | None = None


class ItemStarted(Contract):
    """An item started. For a tool item, this is the action, logged durably before the tool runs."""

    type: Literal["item.started"] = "item.started"
    item: Item


class ItemUpdated(Contract):
    """The status changed; the other fields are set if the user edited the action to allow it."""

    type: Literal["item.updated"] = "item.updated"
    status: ItemStatus
    args: dict[str, Any] | None = None
    title: str | None = None
    command: str | None = None
    risk: Risk | None = None
    summary: str | None = None


class ItemCompleted(Contract):
    """The item in its final state. For a tool item, this is the observation."""

    type: Literal["item.completed"] = "item.completed"
    item: Item


class ApprovalRequested(Contract):
    """An action is held until the user decides."""

    type: Literal["approval.requested"] = "approval.requested"
    approval: Approval


class Decision(Contract):
    effect: Literal["allow", "reject"]
    scope: Scope = "once"


class ApprovalResolved(Contract):
    """An approval was decided, and by whom; `editedSubject` is what runs instead."""

    type: Literal["approval.resolved"] = "approval.resolved"
    approval_id: str
    decision: Decision
    by: Literal["user", "policy", "superseded", "interrupted", "noClient", "changed"]
    feedback: str | None = None
    edited_subject: Subject | None = None


class InputRequested(Contract):
    """The agent asks the user something and waits."""

    type: Literal["input.requested"] = "input.requested"
    input: InputRequest


class InputResolved(Contract):
    """A question was answered, by a `message` if the user typed into the chat instead."""

    type: Literal["input.resolved"] = "input.resolved"
    input_id: str
    action: InputAction
    content: str | None = None
    by: Literal["user", "message", "interrupted", "changed"]


class ActionDecided(Contract):
    """An action was allowed or rejected without asking: the rule, and the action's digest."""

    type: Literal["action.decided"] = "action.decided"
    effect: Literal["allow", "reject"]
    code: RuleCode | None = None
    """Which rule it was; `rule` says it to people."""
    rule: str
    risk: Risk
    reasons: tuple[str, ...] = ()
    digest: str


class ChangesUpdated(Contract):
    """All files that differ from before the turn, each with its first and last hash."""

    type: Literal["changes.updated"] = "changes.updated"
    files: tuple[FileChange, ...]
    by_subagent: tuple[FileChange, ...] | None = None
    """The changes that a sub-agent has just made, for the review."""


class ChangesReviewed(Contract):
    """The user accepted or reverted changes of a file; a hash is absent if there is no file."""

    type: Literal["changes.reviewed"] = "changes.reviewed"
    uri: str
    decision: Literal["accepted", "reverted"]
    base: str | None = None
    """Hash of the text that counts as accepted from now on."""
    now: str | None = None
    """Hash of that text with the agent's pending changes; equal to `base` when none are left."""


class UsageUpdated(Contract):
    """Usage of one model call; the totals are sums of these."""

    type: Literal["usage.updated"] = "usage.updated"
    usage: Usage
    model: str
    latency_ms: int
    context_used: int = 0
    """Number of tokens of the prompt just sent."""
    context_size: int | None = None
    purpose: Purpose | None = None
    """Absent for a step; only steps count against `maxSteps`. A call with purpose `subagent` is in
    the log of the sub-agent's own conversation too."""


class OptionsChanged(Contract):
    """The options that changed, with their values from the next step on."""

    type: Literal["options.changed"] = "options.changed"
    values: dict[str, str]


class RetryScheduled(Contract):
    """A model call failed and is retried; deltas of the items in `dropItemIds` no longer count."""

    type: Literal["retry.scheduled"] = "retry.scheduled"
    attempt: int
    max_attempts: int
    delay_ms: int
    error: ErrorInfo
    drop_item_ids: tuple[str, ...] = ()
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
    | LandingPlanned
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
