"""What git ignores and only the view has, such as `node_modules`: kept when the conversation rests.

Where changes are asked about, each folder is offered once. The offer hangs on a notice that has
ended, so that no turn and no message waits for the answer; the worker acts on it when it comes.
"""

from __future__ import annotations

from oh_daemon.contract import events as e
from oh_daemon.contract.approvals import Approval, FileChangeSubject
from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.items import FileChange, NoticeItem
from oh_daemon.core.approval import approval_options, digest_of, never_asks
from oh_daemon.core.journal import Journal, new_id
from oh_daemon.core.landing import CACHES, Landings, LeftInside
from oh_daemon.core.runtime import Runtime
from oh_daemon.core.state import Decided

_GONE = "the sandbox that had it has ended; run the command again"


class Offers:
    """One per conversation; only its worker calls it."""

    def __init__(self, journal: Journal, runtime: Runtime) -> None:
        self._journal = journal
        self._landings: Landings | None = runtime.landings
        self._can_ask = runtime.policy.can_ask
        self._made = set[str]()
        """The URIs of what was offered or refused."""

    @property
    def are_answered(self) -> bool:
        return bool(self._journal.state.answered_offers())

    def make(self) -> None:
        """Keep or offer what only the view has; call it when a turn ends."""
        options = self._journal.state.options_now
        if self._landings is None or options["mode"] == "plan":
            return
        is_silent = never_asks(options) or options["mode"] == "autoEdit"
        for left in self._landings.left_inside():
            name = left.name.rpartition("/")[2]
            if left.uri in self._made or name in CACHES:
                continue
            if is_silent and left.protected is None:
                title, description = self._kept(left.uri, left.title)
                self._say(NoticeItem(id=new_id(), title=title, description=description))
                continue
            self._made.add(left.uri)
            if is_silent:
                self._say(_refusal(left))
            elif left.is_folder:
                self._ask(left)

    def settle(self) -> None:
        """Act on the answers that have come."""
        journal = self._journal
        with journal.changed:
            answered = journal.state.answered_offers()
        for item_id, decided in answered.items():
            offered = NoticeItem.model_validate(journal.state.item(item_id)).title
            title, description = f"Not kept: {offered}", "It stays in the sandbox."
            if decided.effect == "allow":
                title, description = self._kept(_uri_of(decided), offered)
            notice = NoticeItem(id=new_id(), title=title, description=description)
            self._say(notice.model_copy(update={"settles": item_id}))

    def _kept(self, uri: str, title: str) -> tuple[str, str | None]:
        if self._landings is None:
            return f"Not kept: {title}", _GONE
        try:
            self._landings.keep_whole(uri)
        except FileNotFoundError:
            return f"Not kept: {title}", _GONE
        except (ToolError, OSError) as exc:
            self._made.add(uri)
            return f"Not kept: {title}", str(exc)
        self._made.discard(uri)
        return f"Kept: {title}", None

    def _say(self, notice: NoticeItem) -> None:
        self._journal.append(e.ItemCompleted(item=notice))

    def _ask(self, left: LeftInside) -> None:
        journal = self._journal
        notice = NoticeItem(
            id=new_id(), title=left.title, description="Only the sandbox has it; git ignores it."
        )
        if not self._can_ask():
            self._say(notice)
            return
        change = FileChange(uri=left.uri, op=left.op, added=0, removed=0, raw="folder")
        subject = FileChangeSubject(changes=(change,), origin="command")
        approval = Approval(
            id=new_id(),
            digest=digest_of(subject, (notice.id,)),
            conversation_id=journal.id,
            turn_id=journal.state.turn_id or "",
            item_id=notice.id,
            title=left.question,
            subject=subject,
            risk="medium" if left.protected is None else "high",
            reason=left.protected,
            options=approval_options(subject, "medium", floor=True),
            created_at=journal.clock.now(),
        )
        asked = e.ApprovalRequested(approval=approval)
        journal.append(e.ItemCompleted(item=notice), asked)


def _uri_of(decided: Decided) -> str:
    subject = decided.asked and decided.asked["subject"]
    return subject["changes"][0]["uri"] if subject and subject["kind"] == "fileChange" else ""


def _refusal(left: LeftInside) -> NoticeItem:
    title = f"Not kept: {left.title}"
    return NoticeItem(id=new_id(), severity="warning", title=title, description=left.protected)
