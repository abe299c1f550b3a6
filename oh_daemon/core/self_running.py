"""What a trusted folder runs by itself, such as hooks, and the question about what is new in it.

The question hangs on a notice that is open until it is answered, and the agent waits as long. Only
the conversation's worker asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oh_daemon.contract import events as e
from oh_daemon.contract import plain
from oh_daemon.contract.approvals import Approval, TrustSubject
from oh_daemon.contract.items import NoticeItem
from oh_daemon.core.approval import approval_options, digest_of
from oh_daemon.core.journal import Journal, new_id
from oh_daemon.core.self_run_words import gist, where
from oh_daemon.core.state import Decided

_NEW = "new or changed since you trusted the folder"
_WAYS_OUT = {
    "user": "trust the folder again to let it run",
    "noClient": "nobody can be asked here; `oh-daemon run` in a terminal asks, and so do editors",
}


@dataclass(frozen=True, slots=True)
class SelfRunning:
    """What the folders of one conversation run by themselves."""

    undecided: Callable[[], Sequence[TrustSubject]] = lambda: ()
    """Returns what nobody has decided about, by folder; reads the disk."""
    decide: Callable[[TrustSubject, Decided], None] = lambda _subject, _decided: None
    """Keeps what the user decided."""


class Novelties:
    """Holds the agent of one conversation while the user has to decide about something new."""

    def __init__(self, journal: Journal, running: SelfRunning, can_ask: Callable[[], bool]) -> None:
        self._journal = journal
        self._running = running
        self._can_ask = can_ask
        self._told: set[str] = set()
        """Digests of what nobody could be asked about."""

    def hold(self) -> bool:
        """Return whether an answer is awaited; take those that came, and ask what is open."""
        while True:
            with self._journal.changed:
                state = self._journal.state
                notice = next(filter(_is_question, map(state.item, state.open_items)), None)
                approvals = [each["itemId"] for each in state.approvals.values()]
                decisions = state.decisions.get(notice["id"], {}) if notice else {}
            if notice is None:
                return self._ask()
            if notice["id"] in approvals:
                return True
            self._take(notice, next(iter(decisions.values()), None))

    def _ask(self) -> bool:
        for subject in self._running.undecided():
            if self._can_ask():
                self._request(subject)
                return True
            if digest_of(subject) not in self._told:
                self._told.add(digest_of(subject))
                self._journal.append(e.ItemCompleted(item=_refusal(subject, by="noClient")))
        return False

    def _request(self, subject: TrustSubject) -> None:
        journal, what = self._journal, where(subject)
        notice = NoticeItem(
            id=new_id(),
            status="awaitingApproval",
            severity="warning",
            title=f"New or changed: {what}",
        )
        approval = Approval(
            id=new_id(),
            digest=digest_of(subject),
            conversation_id=journal.id,
            turn_id=journal.state.turn_id or "",
            item_id=notice.id,
            title=f"Let {what} run without asking?",
            subject=subject,
            risk="medium",
            reason=_NEW,
            options=approval_options(subject, "medium", floor=False),
            created_at=journal.clock.now(),
        )
        journal.append(
            e.ItemStarted(item=notice), e.ApprovalRequested(approval=approval), item_id=notice.id
        )
        journal.log.sync()

    def _take(self, notice: plain.Item, decided: Decided | None) -> None:
        """Keep an answer of the user; without one, it is asked again."""
        if decided is None or decided.asked is None or decided.answer is None:
            ended = _ended(notice, status="cancelled")
        elif decided.answer["by"] != "user":
            ended = _ended(notice, status="cancelled", reason=decided.answer["by"])
        else:
            subject = TrustSubject.model_validate(decided.asked["subject"])
            self._running.decide(subject, decided)
            said = permission(subject) if decided.effect == "allow" else _refusal(subject)
            ended = said.model_copy(update={"id": notice["id"]})
        self._journal.append(e.ItemCompleted(item=ended))


def _is_question(item: plain.Item) -> bool:
    return item["kind"] == "notice" and item["status"] == "awaitingApproval"


def _ended(notice: plain.Item, **fields: Any) -> NoticeItem:
    return NoticeItem.model_validate({**notice, **fields})


def permission(subject: TrustSubject) -> NoticeItem:
    """Return the notice that something may run without asking."""
    title = f"May run without asking: {where(subject)}"
    return NoticeItem(id=new_id(), title=title, description=gist(subject))


def _refusal(subject: TrustSubject, by: str = "user") -> NoticeItem:
    return NoticeItem(
        id=new_id(),
        status="rejected",
        reason=None if by == "user" else by,
        severity="warning",
        title=f"Not run: {where(subject)}, {_NEW}",
        description=f"{gist(subject)}; {_WAYS_OUT[by]}",
    )
