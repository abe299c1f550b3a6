"""Summaries of a conversation, as lists and answers to requests show them."""

from __future__ import annotations

from oh_daemon.conversations.following import Followed
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m
from oh_daemon.protocol.summaries import ConversationInfo
from oh_daemon.storage.catalog import summary_of


def summarize(history: History) -> Json:
    """Return the summary that lists show of a live conversation, as for a closed one."""
    with history.condition:
        return summary_of(history.state)


def status_of(history: History) -> str:
    """Return the status alone, without waiting for the conversation."""
    # A change of status that could not be logged is not in the state.
    return history.state.status if history.storage_error is None else "paused"


def describe(history: History) -> ConversationInfo:
    """Describe a live or followed conversation."""
    with history.condition:
        lock: Json = {"mine": True}
        if isinstance(history, Followed):
            lock = {"mine": False, "pid": history.owner.get("pid")}
        info = describe_state(history.state, lock=lock, epoch=history.epoch)
        if history.storage_error is None:
            return info
        # This change of status could not be logged, so the state does not show it.
        return info.model_copy(update={"status": "paused", "status_reason": "storage"})


def describe_state(state: State, *, lock: Json, epoch: str | None = None) -> ConversationInfo:
    """Describe a conversation from its state; `lock` says who has it open."""
    now = {"epoch": epoch, "turnId": state.turn_id, "lock": lock}
    return ConversationInfo.model_validate({**summary_of(state), **now})


def plan_update(params: m.UpdateParams, before: Json) -> e.ConversationUpdated:
    """Return the event for the requested changes; `before` is the present metadata."""
    fields = params.model_fields_set
    metadata = {} if params.metadata is None else {**before, **params.metadata}
    return e.ConversationUpdated(
        title=params.title,
        archived=params.archived,
        tags=params.tags or () if "tags" in fields else None,
        metadata={k: v for k, v in metadata.items() if v is not None}
        if "metadata" in fields
        else None,
    )
