"""Puts approvals before the user, in order, and takes the answers.

Only an option that was offered decides; everything else leaves the approval pending.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import cast

from oh_daemon.contract.errors import DaemonError
from oh_daemon.contract.events import Decision
from oh_daemon.contract.to_client import ApprovalAnswer
from oh_daemon.core.approval import whole_text
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json
from oh_daemon.core.risk import display_escaped
from oh_daemon.fronts.lsp.client import Client, ClientAnswer
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.outbox import Outbox

log = logging.getLogger(__name__)

_WARNING = 2
_MAX_MESSAGE_CHARS = 8000


class Asker:
    """Any thread may ask; an approval is before the client once at a time."""

    def __init__(self, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
        self._outbox = outbox
        self._client = client
        self._asks_ours = "approvalRequests" in facts.features
        self._asks_lsp = facts.offers("window", "showMessage")
        self._is_panel = facts.is_panel
        self._lock = threading.Lock()
        self._open: dict[str, Callable[[], None]] = {}

    def can_ask(self) -> bool:
        return self._asks_ours or self._asks_lsp or self._is_panel

    def on_record(self, journal: Journal, record: Json) -> None:
        event = record["event"]
        if event["type"] == "approval.requested":
            self.ask(journal, event["approval"])
        elif event["type"] == "approval.resolved":
            self.withdraw([event["approvalId"]])

    def withdraw(self, approval_ids: Iterable[str]) -> None:
        """Take back what is decided by now, or belongs to a conversation that was closed."""
        with self._lock:
            open_ones = [self._open.pop(each) for each in approval_ids if each in self._open]
        for withdraw in open_ones:
            withdraw()

    def ask(self, journal: Journal, approval: Json) -> None:
        """Ask unless it is being asked already; after the events so far."""
        if not (self._asks_ours or self._asks_lsp):
            return
        with self._lock:
            if approval["id"] in self._open:
                return
            self._open[approval["id"]] = lambda: None
        self._outbox.in_order(journal.id, lambda: self._send(journal, approval))

    def _send(self, journal: Journal, approval: Json) -> None:
        def on_answer(answer: ClientAnswer) -> None:
            with self._lock:
                self._open.pop(approval["id"], None)
            _take_answer(journal, approval, answer)

        method, shown = (
            ("approval/request", approval)
            if self._asks_ours
            else ("window/showMessageRequest", _as_message(approval))
        )
        withdraw = self._client.request_async(method, shown, on_answer)
        with self._lock:
            if approval["id"] in self._open:
                self._open[approval["id"]] = withdraw
                return
        withdraw()  # It was decided at another place meanwhile.


def chosen_option(approval: Json, *, by: str, value: str | None) -> Decision | None:
    """What the offered option with this `id` or `label` decides."""
    for option in approval["options"]:
        if option[by] == value:
            return Decision(effect=option["effect"], scope=option["scope"])
    return None


def _as_message(approval: Json) -> Json:
    """All of it, or else no way to allow it: nobody may allow what they were not shown."""
    title, text = (display_escaped(t) for t in (approval["title"], whole_text(approval["subject"])))
    options, note = approval["options"], ""
    if len(text) > _MAX_MESSAGE_CHARS:
        options = [option for option in options if option["effect"] == "reject"]
        text, note = "", "\nIt is too long to be shown here, so it can only be rejected here."
    body = "" if text in title else f"\n{text}"
    reason = f"\nRisk: {approval['risk']}. {approval.get('reason', '')}".rstrip()
    actions = [{"title": option["label"]} for option in options]
    return {"type": _WARNING, "message": f"{title}{body}{reason}{note}", "actions": actions}


def _take_answer(journal: Journal, approval: Json, answer: ClientAnswer) -> None:
    if not isinstance(answer.result, dict):
        return
    result = cast("Json", answer.result)  # pyright: ignore[reportUnknownMemberType] - any JSON.
    by, key = ("id", "optionId") if "optionId" in result else ("label", "title")
    decision = chosen_option(approval, by=by, value=result.get(key))
    if decision is None or not isinstance(journal, Conversation):
        log.warning("approval %s: the answer names no option that was offered", approval["id"])
        return
    try:
        more = ApprovalAnswer.model_validate(result)
        journal.respond(
            approval["id"],
            approval["digest"],
            decision,
            feedback=more.feedback,
            edited_subject=more.edited_subject,
        )
    except (DaemonError, ValueError) as exc:
        # Fail closed: it stays pending, and the next open of the conversation asks again.
        log.warning("approval %s: the answer does not count: %s", approval["id"], exc)
