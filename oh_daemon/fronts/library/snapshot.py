"""What a program can see of a conversation at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from oh_daemon.app.live import Live
from oh_daemon.contract.approvals import Approval
from oh_daemon.contract.status import Usage


class ConversationStatus(StrEnum):
    """What a conversation is doing; the values are those of the protocol."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSING = "pausing"
    PAUSED = "paused"
    INTERRUPTING = "interrupting"
    ERROR = "error"
    FINISHED = "finished"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a conversation at one moment; it does not change afterwards."""

    status: ConversationStatus
    title: str
    usage: Usage
    pending: tuple[Approval, ...]
    """Approvals that wait for `respond`, including those of sub-agents."""


def snapshot_of(shown: Live, all_live: Iterable[Live]) -> Snapshot:
    """Take a snapshot of one of the live conversations; the others may be its sub-agents."""
    conversation = shown.conversation
    with conversation.changed:
        state = conversation.state
        status = "closed" if conversation.is_closing else state.status
        title, usage = state.title, Usage.model_validate(state.usage or {})
    states = [live.conversation.state for live in all_live]
    waiting = (a for state in states for a in tuple(state.approvals.values()))
    pending = tuple(Approval.model_validate(approval) for approval in waiting)
    return Snapshot(ConversationStatus(status), title, usage, pending)
