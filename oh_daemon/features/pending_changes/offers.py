"""Files that git ignores and only the sandbox has: the user is offered to keep them.

`ApplyPrompts` asks when a turn ends, and acts on answers whenever they come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oh_daemon.features.pending_changes.pending_changes import (
    ChangedSinceError,
    PendingChanges,
    UnappliedFile,
)
from oh_daemon.kernel.approval_requests import approval_options, never_asks, new_approval
from oh_daemon.kernel.extension_points import OpenQuestions
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Intent
from oh_daemon.kernel.state import DecisionMade
from oh_daemon.protocol import events as e
from oh_daemon.protocol.approvals import FileChangeSubject
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import FileChange, NoticeItem
from oh_daemon.system.git import CACHES

_GONE = "the sandbox that had it has ended; run the command again"


class ApplyPrompts(OpenQuestions):
    """The offers of one conversation."""

    def __init__(
        self, journal: Journal, pending: PendingChanges | None, can_ask: Callable[[], bool]
    ) -> None:
        """Without `pending`, there is no overlay; earlier offers are then answered all the same."""
        self._journal = journal
        self._pending = pending
        self._can_ask = can_ask
        self._offers = set[str]()
        """The URIs of what was offered or refused."""
        self._prompts: dict[str, UnappliedFile] = {}
        """What the user was asked about, by the id of the notice."""
        self._reported = set[str]()
        """Sentences about protected files that a notice contains already."""

    @property
    def are_answered(self) -> bool:
        return bool(self._journal.state.answered_prompts())

    def ask_at_rest(self) -> None:
        """Keep or offer what only the sandbox has."""
        options = self._journal.state.options_now
        if self._pending is None or options["mode"] == "plan":
            return
        is_silent = never_asks(options) or options["mode"] == "autoEdit"
        for leftover in self._pending.unapplied_files():
            name = leftover.name.rpartition("/")[2]
            if leftover.uri in self._offers or name in CACHES:
                continue
            if is_silent:
                self._keep_unprotected(leftover)
                continue
            self._offers.add(leftover.uri)
            if leftover.is_folder:
                self._ask(leftover)

    def _keep_unprotected(self, leftover: UnappliedFile) -> None:
        """Keep what needs no question, and report the rest once."""
        if leftover.protected_reason is not None:
            self._offers.add(leftover.uri)
            self._say(_refusal(leftover.title, (leftover.protected_reason,)))
            return
        if not leftover.is_all_protected:
            title, description = self._keep(leftover.uri, leftover.title)
            self._say(NoticeItem(id=new_id(), title=title, description=description))
        reasons = [each for each in leftover.protected if each not in self._reported]
        self._reported.update(reasons)
        if reasons:
            files = "1 file" if len(reasons) == 1 else f"{len(reasons):,} files"
            self._say(_refusal(f"{files} in {leftover.name}", reasons))

    def settle(self) -> None:
        journal = self._journal
        with journal.condition:
            answers = journal.state.answered_prompts()
        for item_id, decision in answers.items():
            prompt_title = journal.state.item(item_id).get("title", "")
            title, description = f"Not kept: {prompt_title}", "It stays in the sandbox."
            prompt = self._prompts.pop(item_id, None)
            if decision.effect == "allow":
                fingerprint = prompt.fingerprint if prompt else ""
                title, description = self._keep(_uri_of(decision), prompt_title, fingerprint)
            notice = NoticeItem(id=new_id(), title=title, description=description)
            self._say(notice.model_copy(update={"settles": item_id}))

    def _keep(self, uri: str, title: str, fingerprint: str | None = None) -> tuple[str, str | None]:
        if self._pending is None:
            return f"Not kept: {title}", _GONE
        try:
            self._pending.apply_whole(uri, fingerprint=fingerprint)
        except FileNotFoundError:
            return f"Not kept: {title}", _GONE
        except ChangedSinceError as exc:
            self._offers.discard(uri)
            return f"Not kept: {title}", f"{exc}; you are asked again when the turn ends."
        except (ToolError, OSError) as exc:
            self._offers.add(uri)
            return f"Not kept: {title}", str(exc)
        self._offers.discard(uri)
        return f"Kept: {title}", None

    def _say(self, notice: NoticeItem) -> None:
        self._journal.append(e.ItemCompleted(item=notice))

    def _ask(self, leftover: UnappliedFile) -> None:
        journal = self._journal
        notice = NoticeItem(
            id=new_id(),
            title=leftover.title,
            description="Only the sandbox has it; git ignores it.",
        )
        if not self._can_ask():
            self._say(notice)
            return
        self._prompts[notice.id] = leftover
        reasons = (*filter(None, (leftover.protected_reason,)), *leftover.protected)
        change = FileChange(uri=leftover.uri, op=leftover.op, added=0, removed=0, raw="folder")
        subject = FileChangeSubject(changes=(change,), origin="command")
        intent = Intent(
            leftover.question,
            subject,
            risk="high" if reasons else "medium",
            reasons=reasons,
            digest_material=(notice.id, leftover.fingerprint),
        )
        options = approval_options(subject, "medium", floor=True)
        approval = new_approval(journal.state, journal.clock.now(), notice.id, intent, options)
        event = e.ApprovalRequested(approval=approval)
        journal.append(e.ItemCompleted(item=notice), event)


def _uri_of(decision: DecisionMade) -> str:
    subject = decision.approval and decision.approval["subject"]
    return subject["changes"][0]["uri"] if subject and subject["kind"] == "fileChange" else ""


def _refusal(title: str, reasons: Sequence[str]) -> NoticeItem:
    description = "\n".join(reasons)
    title = f"Not kept: {title}"
    return NoticeItem(id=new_id(), severity="warning", title=title, description=description)
