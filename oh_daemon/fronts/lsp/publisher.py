"""Tells the client what happens in conversations: events, deltas, lists, progress, approvals.

A listener of every conversation; it runs under their locks, so it only puts into the outbox. Text
is built from the log's own bytes, once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import cast

import orjson

from oh_daemon.contract.errors import DaemonError, StorageError
from oh_daemon.contract.events import Decision, ErrorInfo
from oh_daemon.contract.messages import LockInfo
from oh_daemon.contract.to_client import ApprovalAnswer
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json
from oh_daemon.core.risk import display_escaped
from oh_daemon.fronts.conversations import describe_state
from oh_daemon.fronts.lsp.client import Client, ClientAnswer
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.outbox import DeltaStream, Outbox
from oh_daemon.fronts.lsp.stdio import encode

log = logging.getLogger(__name__)

_LISTED = frozenset({"conversation.created", "conversation.updated", "status.changed"})
_WARNING = 2


class Publisher:
    """One client's view. `subscribed` is changed on the main loop and under conversation locks."""

    def __init__(self, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
        self._outbox = outbox
        self._facts = facts
        self.subscribed: set[str] = set()
        self.asker = Asker(outbox, client, facts)
        self.progress = Progress(outbox, client, facts)

    def on_record(self, journal: Journal, line: bytes, record: Json) -> None:
        kind = record["event"]["type"]
        if journal.id in self.subscribed:
            if kind not in self._facts.opted_out:
                head = orjson.dumps({"conversationId": journal.id, "epoch": journal.epoch})
                self._outbox.event(journal.id, record["seq"], head[:-1] + b"," + line[1:])
            self.asker.on_record(journal, record)
            self.progress.on_record(journal, record)
        if kind in _LISTED:
            info = describe_state(journal.state, LockInfo(mine=True), journal.epoch)
            change = "created" if kind == "conversation.created" else "updated"
            body = encode({"conversation": info, "change": change})
            self._outbox.in_order(
                journal.id, lambda: self._outbox.notify("conversation/changed", body)
            )

    def on_delta(
        self, journal: Journal, item_id: str, channel: str, offset: int, text: str
    ) -> None:
        if self._facts.wants_deltas and journal.id in self.subscribed:
            turn_id = (journal.state.turn or {"id": ""})["id"]
            self._outbox.delta(DeltaStream(journal.id, turn_id, item_id, channel), offset, text)

    def on_halted(self, journal: Journal, error: StorageError) -> None:
        self.tell("error", error.message, conversation_id=journal.id, error=error)

    def tell(
        self,
        kind: str,
        message: str,
        *,
        conversation_id: str | None = None,
        error: DaemonError | None = None,
    ) -> None:
        """Something a user should know about the daemon itself."""
        told: Json = {"kind": kind, "message": message}
        if conversation_id is not None:
            told["conversationId"] = conversation_id
        if error is not None:
            told["error"] = ErrorInfo.of(error)
        self._outbox.notify("daemon/statusChanged", encode(told))


class Asker:
    """Puts approvals before the user, in order, and takes the answers.

    Only an option that was offered decides; everything else leaves the approval pending.
    """

    def __init__(self, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
        self._outbox = outbox
        self._client = client
        self._asks_ours = "approvalRequests" in facts.features
        self._asks_lsp = "showMessage" in (facts.capabilities.get("window") or {})
        self._is_panel = facts.kind == "panel"
        self._lock = threading.Lock()
        self._open: dict[str, Callable[[], None]] = {}

    def can_ask(self) -> bool:
        return self._asks_ours or self._asks_lsp or self._is_panel

    def on_record(self, journal: Journal, record: Json) -> None:
        event = record["event"]
        match event["type"]:
            case "approval.requested":
                self.ask(journal, event["approval"])
            case "approval.resolved":
                self.withdraw([event["approvalId"]])
            case _:
                pass

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

        if self._asks_ours:
            withdraw = self._client.request_async("approval/request", approval, on_answer)
        else:
            shown = _as_message(approval)
            withdraw = self._client.request_async("window/showMessageRequest", shown, on_answer)
        with self._lock:
            if approval["id"] in self._open:
                self._open[approval["id"]] = withdraw
                return
        withdraw()  # It was decided at another place meanwhile.


def _as_message(approval: Json) -> Json:
    reason = f"\nRisk: {approval['risk']}. {approval.get('reason', '')}".rstrip()
    titles = [{"title": option["label"]} for option in approval["options"]]
    return {
        "type": _WARNING,
        "message": display_escaped(approval["title"]) + reason,
        "actions": titles,
    }


def _take_answer(journal: Journal, approval: Json, answer: ClientAnswer) -> None:
    answered: object = answer.result
    if answer.outcome != "answered" or not isinstance(answered, dict):
        return
    result = cast("Json", answered)
    by = {"id": result.get("optionId"), "label": result.get("title")}
    chosen = next(
        (o for o in approval["options"] for key in by if by[key] is not None and o[key] == by[key]),
        None,
    )
    if chosen is None or not isinstance(journal, Conversation):
        log.warning("approval %s: the answer names no option that was offered", approval["id"])
        return
    try:
        more = ApprovalAnswer.model_validate({k: v for k, v in result.items() if k != "title"})
        decision = Decision(effect=chosen["effect"], scope=chosen["scope"])
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


class Progress:
    """`$/progress` for each running turn, so that any LSP client can show and cancel it."""

    def __init__(self, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
        self._outbox = outbox
        self._client = client
        self._is_wanted = facts.offers("window", "workDoneProgress")
        self._lock = threading.Lock()
        self._begun: dict[str, bool] = {}
        """Token of each running turn, and whether the client has accepted it."""

    def on_record(self, journal: Journal, record: Json) -> None:
        event = record["event"]
        token = f"oh-daemon/{journal.id}/{record.get('turnId')}"
        match event["type"]:
            case "turn.started" if self._is_wanted:
                title = journal.state.title or "Agent"
                self._create(token, {"kind": "begin", "title": title, "cancellable": True})
            case "item.started" if event["item"].get("title"):
                self._report(token, {"kind": "report", "message": event["item"]["title"]})
            case "turn.completed":
                with self._lock:
                    is_begun = self._begun.pop(token, False)
                if is_begun:
                    self._send(token, {"kind": "end", "message": event["turn"]["status"]})
            case _:
                pass

    @staticmethod
    def conversation_of(token: object) -> str | None:
        """Whose turn a cancelled token stands for."""
        parts = str(token).split("/")
        return parts[1] if parts[0] == "oh-daemon" and len(parts) > 1 else None

    def _create(self, token: str, begin: Json) -> None:
        with self._lock:
            self._begun[token] = False

        def on_answer(answer: ClientAnswer) -> None:
            with self._lock:
                is_running = token in self._begun and answer.outcome == "answered"
                if is_running:
                    self._begun[token] = True
            if is_running:
                self._send(token, begin)

        self._client.request_async("window/workDoneProgress/create", {"token": token}, on_answer)

    def _report(self, token: str, value: Json) -> None:
        with self._lock:
            is_begun = self._begun.get(token, False)
        if is_begun:
            self._send(token, value)

    def _send(self, token: str, value: Json) -> None:
        self._outbox.notify("$/progress", encode({"token": token, "value": value}))
