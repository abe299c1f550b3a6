"""Tells the client what happens in conversations: events, deltas, lists and progress.

`Publisher` listens to every conversation and runs under their locks, so it only puts messages into
the outbox. An event is sent as the log's own bytes, not encoded again. `asker` asks the user.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from oh_daemon.common.plain_text import shorten
from oh_daemon.conversations.description import describe, describe_state
from oh_daemon.frontends.lsp.approval_prompts import ApprovalPrompts
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.jsonrpc.client import Client, ClientAnswer
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.outbox import DeltaStream, Outbox
from oh_daemon.kernel.journal import History, Journal
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import StorageError
from oh_daemon.protocol.items import ErrorInfo

_ERROR, _INFO = 1, 3
_MAX_SHOWN = 4_000
_LISTED = {
    "conversation.created": "created",
    "conversation.updated": "updated",
    "status.changed": "updated",
}

_REVIEWS = frozenset({"changes.updated", "changes.reviewed", "conversation.rolledBack"})


class Publisher:
    """One client's view.

    Any thread may change `subscribed_ids`, one atomic set operation at a time.
    """

    def __init__(self, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
        self._outbox = outbox
        self._facts = facts
        self.subscribed_ids: set[str] = set()
        self.on_changes: Callable[[History], object] = lambda _history: None
        """Called under a conversation's lock when what waits for review may be another."""
        self.asker = ApprovalPrompts(outbox, client, facts)
        self._progress = _Progress(outbox, client)

    def subscribe(self, history: History) -> None:
        """Send the client its events from now on, and ask for the answers it waits for."""
        self.subscribed_ids.add(history.id)
        if isinstance(history, Journal):
            self.ask_again(history)
            self.on_changes(history)

    def ask_again(self, history: History) -> None:
        """Ask for the answers that a conversation waits for, but for those just being asked."""
        for request in history.state.pending.values():
            self.asker.ask(history, request)

    def is_watched(self, conversation_id: str) -> bool:
        """Return whether the client subscribed to this very conversation, not just its parent."""
        return conversation_id in self.subscribed_ids

    def unsubscribe(self, history: History) -> None:
        """Send no more of a conversation that was closed, and withdraw its questions."""
        self.subscribed_ids.discard(history.id)
        self.asker.shown_in_chat.discard(history.id)
        self.asker.withdraw(history.state.pending)

    def on_over(self, history: History) -> None:
        """Tell the client that the other process is done with it, so it can be opened here."""
        self.subscribed_ids.discard(history.id)
        self._report_lists(history, "updated")

    def on_forked(self, history: History) -> None:
        """Subscribe to a fork that was just made, and tell the client's lists of it."""
        self.subscribe(history)
        self._report_lists(history, "created")

    def on_deleted(self, history: History) -> None:
        self.unsubscribe(history)
        state = describe_state(history.state, lock={"mine": False})
        body = encode({"conversation": state, "change": "deleted"})
        self._outbox.notify("conversation/changed", body)

    def on_record(self, history: History, line: bytes, record: plain.Record) -> None:
        kind = record["event"]["type"]
        if self.is_heard(history):
            if kind not in self._facts.opted_out:
                head = orjson.dumps({"conversationId": history.id, "epoch": history.epoch})
                self._outbox.event(history.id, record["seq"], head[:-1] + b"," + line[1:])
            # A followed conversation is another process's, which asks its user and can stop it.
            if isinstance(history, Journal):
                self.asker.on_record(history, record)
                if self._facts.is_plain:
                    self._show(history.id, record["event"])
                if self._facts.offers("window", "workDoneProgress"):
                    self._progress.on_record(history, record)
        if kind in _REVIEWS and isinstance(history, Journal):
            self.on_changes(history)
        if kind in _LISTED:
            self._report_lists(history, _LISTED[kind])

    def _show(self, conversation_id: str, event: plain.Event) -> None:
        """Show how a turn goes to a client that understands none of our notifications."""
        match event["type"]:
            case "error.raised":
                self._notify(_ERROR, event["error"]["message"])
            case "turn.completed" if event["turn"]["status"] == "completed":
                turn = event["turn"]
                final_text = (
                    None if conversation_id in self.asker.shown_in_chat else turn.get("finalText")
                )
                self._notify(_INFO, final_text or f"The turn ended: {turn.get('stopReason')}")
            case _:
                pass

    def _notify(self, kind: int, text: str) -> None:
        message = {"type": kind, "message": shorten(text, _MAX_SHOWN)}
        self._outbox.notify("window/showMessage", encode(message))

    def on_delta(
        self, history: History, item_id: str, channel: str, offset: int, text: str
    ) -> None:
        if self._facts.wants_deltas and self.is_heard(history):
            turn_id = history.state.turn_id or ""
            self._outbox.delta(DeltaStream(history.id, turn_id, item_id, channel), offset, text)

    def on_halted(self, history: History, error: StorageError) -> None:
        if self._facts.is_plain:
            self._notify(_ERROR, error.message)
        params = {"kind": "error", "message": error.message, "conversationId": history.id}
        body = encode({**params, "error": ErrorInfo.of(error)})
        self._outbox.notify("daemon/statusChanged", body)
        self._report_lists(history, "updated")

    def is_heard(self, history: History) -> bool:
        """Return whether the client subscribed to it or, if it is a sub-agent's, to its parent."""
        return not self.subscribed_ids.isdisjoint((history.id, history.state.parent_id))

    def _report_lists(self, history: History, change: str) -> None:
        if history.state.parent_id is not None:
            return  # Lists leave sub-agents out unless the client asks for them.
        body = encode({"conversation": describe(history), "change": change})
        self._outbox.in_order(history.id, lambda: self._outbox.notify("conversation/changed", body))


class _Progress:
    """`$/progress` for each running turn, so that any LSP client can show and cancel it."""

    def __init__(self, outbox: Outbox, client: Client) -> None:
        self._outbox = outbox
        self._client = client
        self._begun_ids: set[str] = set()
        """Tokens that the client accepted; each is changed under its conversation's lock."""

    def on_record(self, history: History, record: plain.Record) -> None:
        event = record["event"]
        token = f"oh-daemon/{history.id}/{record.get('turnId')}"
        match event["type"]:
            case "turn.started":
                self._create(history, token, record.get("turnId"))
            case "item.started" if token in self._begun_ids and (
                title := event["item"].get("title")
            ):
                self._send(token, {"kind": "report", "message": title})
            case "turn.completed" if token in self._begun_ids:
                self._begun_ids.discard(token)
                self._send(token, {"kind": "end", "message": event["turn"]["status"]})
            case _:
                pass

    def _create(self, history: History, token: str, turn_id: str | None) -> None:
        def on_answer(answer: ClientAnswer) -> None:
            with history.condition:
                is_running = history.state.turn_id == turn_id
                if is_running and answer.outcome == "answered":
                    self._begun_ids.add(token)
                    title = history.state.title or "Agent"
                    self._send(token, {"kind": "begin", "title": title, "cancellable": True})

        self._client.request_async("window/workDoneProgress/create", {"token": token}, on_answer)

    def _send(self, token: str, value: Json) -> None:
        self._outbox.notify("$/progress", encode({"token": token, "value": value}))


def conversation_of(token: object) -> str:
    """Return the conversation that a progress token stands for; empty if it is not ours."""
    parts = str(token).split("/")
    return parts[1] if parts[0] == "oh-daemon" and len(parts) > 1 else ""
