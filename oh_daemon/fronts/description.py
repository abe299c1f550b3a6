"""One conversation at a glance, as lists and answers show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oh_daemon.contract import events as e
from oh_daemon.contract import messages as m
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json
from oh_daemon.core.state import State
from oh_daemon.fronts.following import Followed
from oh_daemon.store.catalog import Catalog, summary_of


def summarize(journal: Journal) -> Json:
    """What lists need of a live conversation; the same as of one that is closed."""
    with journal.changed:
        return summary_of(journal.state)


def describe(journal: Journal) -> m.ConversationInfo:
    """A live or followed conversation at a glance."""
    with journal.changed:
        lock: Json = {"mine": True}
        if isinstance(journal, Followed):
            lock = {"mine": False, "pid": journal.owner.get("pid")}
        info = describe_state(journal.state, lock=lock, epoch=journal.epoch)
        if journal.halted is None:
            return info
        # The log could not take this change of status, so the state does not know it.
        return info.model_copy(update={"status": "paused", "status_reason": "storage"})


def describe_state(state: State, *, lock: Json, epoch: str | None = None) -> m.ConversationInfo:
    """A conversation at a glance, from its state; `lock` says who has it open."""
    now = {"epoch": epoch, "turnId": (state.turn or {}).get("id"), "lock": lock}
    return m.ConversationInfo.model_validate({**summary_of(state), **now})


def describe_closed(summary: Json, homes: Iterable[Catalog]) -> m.ConversationInfo:
    """A conversation that is not open in this process, by its summary from one of `homes`."""
    own = (home for home in homes if home.find(summary["id"]))
    owner = next((home.owner_of(summary["id"]) for home in own), dict[str, Any]())
    lock = {"mine": False, "pid": owner.get("pid")}
    return m.ConversationInfo.model_validate({**summary, "lock": lock})


def plan_update(params: m.UpdateParams, before: Json) -> e.ConversationUpdated:
    """The event that changes it as asked; `before` is its metadata now."""
    given = params.model_fields_set
    known = {} if params.metadata is None else {**before, **params.metadata}
    return e.ConversationUpdated(
        title=params.title,
        archived=params.archived,
        tags=params.tags or () if "tags" in given else None,
        metadata={k: v for k, v in known.items() if v is not None} if "metadata" in given else None,
    )
