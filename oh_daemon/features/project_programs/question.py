"""What a trusted folder runs by itself, such as hooks, and the question about what is new in it.

The question hangs on a notice that is open until it is answered, and the agent waits as long. Only
the conversation's worker asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

from msgspec import Struct

from oh_daemon.common.plain_text import clip_line, first_line
from oh_daemon.kernel.approval_requests import RUN_KINDS, approval_options, new_approval
from oh_daemon.kernel.extension_points import OpenQuestions
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Intent, digest_of
from oh_daemon.kernel.state import DecisionMade
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import TrustSubject
from oh_daemon.protocol.forms import item_with, model_of
from oh_daemon.protocol.items import NoticeItem

_NEW = "new or changed since you trusted the folder"
_CHANGEABLE = "the agent can change what it runs"
_MAX_NAMED = 5
_WAYS_OUT = {
    "user": "trust the folder again to let it run",
    "noClient": "nobody can be asked here; `oh-daemon run` in a terminal asks, and so do editors",
}


class ProjectPrograms(Struct, frozen=True):
    """What the folders of one conversation run by themselves."""

    list_undecided: Callable[[], Sequence[TrustSubject]]
    """Returns what nobody has decided about, by folder; reads the disk."""
    decide: Callable[[TrustSubject, DecisionMade], None]
    """Keeps what the user decided."""


class UnapprovedPrograms(OpenQuestions):
    """Holds the agent of one conversation while the user has to decide about something new."""

    def __init__(
        self, journal: Journal, programs: ProjectPrograms, can_ask: Callable[[], bool]
    ) -> None:
        self._journal = journal
        self._programs = programs
        self._can_ask = can_ask
        self._refusals: set[str] = set()
        """Digests of what nobody could be asked about."""

    def hold(self) -> bool:
        """Return whether an answer is awaited; take those that came, and ask what is open."""
        while True:
            with self._journal.condition:
                state = self._journal.state
                notice = next(filter(_is_question, map(state.item, state.open_items)), None)
                approvals = [each["itemId"] for each in state.approvals.values()]
                decisions = state.decisions.get(notice["id"], {}) if notice else {}
            if notice is None:
                return self._ask()
            if notice["id"] in approvals:
                return True
            self._take_decision(notice, next(iter(decisions.values()), None))

    def _ask(self) -> bool:
        for subject in self._programs.list_undecided():
            if self._can_ask():
                self._request(subject)
                return True
            if digest_of(subject) not in self._refusals:
                self._refusals.add(digest_of(subject))
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
        title = f"Let {what} run without asking?"
        intent = Intent(title, subject, "medium", (_reason(subject),))
        options = approval_options(subject, "medium", floor=False)
        approval = new_approval(journal.state, journal.clock.now(), notice.id, intent, options)
        journal.append(
            e.ItemStarted(item=notice), e.ApprovalRequested(approval=approval), item_id=notice.id
        )
        journal.log.sync()

    def _take_decision(self, notice: plain.Item, decision: DecisionMade | None) -> None:
        """Keep an answer of the user; without one, it is asked again."""
        asked_subject = decision and decision.approval and decision.approval["subject"]
        if (
            decision is None
            or decision.answer is None
            or not asked_subject
            or asked_subject["kind"] != "trust"
        ):
            cancelled_notice = item_with(notice, {"status": "cancelled"})
        elif decision.answer["by"] != "user":
            cancelled_notice = item_with(
                notice, {"status": "cancelled", "reason": decision.answer["by"]}
            )
        else:
            subject = model_of(TrustSubject, asked_subject)
            self._programs.decide(subject, decision)
            text = permission(subject) if decision.effect == "allow" else _refusal(subject)
            cancelled_notice = text.model_copy(update={"id": notice["id"]})
        self._journal.append(e.ItemCompleted(item=cancelled_notice))


def _is_question(item: plain.Item) -> bool:
    return item["kind"] == "notice" and item["status"] == "awaitingApproval"


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
        title=f"Not run: {where(subject)}, {_reason(subject)}",
        description=f"{gist(subject)}; {_WAYS_OUT[by]}",
    )


def _reason(subject: TrustSubject) -> str:
    return _CHANGEABLE if any(run.runs_other_files for run in subject.runs or ()) else _NEW


def count_text(subject: TrustSubject) -> str:
    """Return how many of each kind there are, as in "2 hooks and 1 MCP server"."""
    kinds = [run.kind for run in subject.runs or ()]
    counts = [(kinds.count(kind), word) for kind, word in RUN_KINDS.items()]
    parts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in counts if n]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def where(subject: TrustSubject) -> str:
    """Return how many there are and in which folder."""
    return f"{count_text(subject)} of {PurePosixPath(unquote(subject.folder)).name}"


def gist(subject: TrustSubject) -> str:
    """Return the first few commands, in Markdown."""
    runs = subject.runs or ()
    names = [f"`{clip_line(first_line(run.command), 80)}`" for run in runs[:_MAX_NAMED]]
    n_more = len(runs) - len(names)
    return ", ".join(names) + (f" and {n_more} more" if n_more else "")
