"""The spine of a conversation: one lock, one append, one fold, and its listeners.

An event is written before it is folded, and folded before anyone hears of it. The write happens
under the lock (2 microseconds), which keeps file order, `seq` order and wire order the same.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import orjson

from oh_daemon.contract import events as e
from oh_daemon.contract import plain
from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import DaemonError, InvalidStateError, StorageError, UserError
from oh_daemon.contract.items import ConversationState, PauseReason, QueuedMessage, UserMessageItem
from oh_daemon.contract.skills import SkillKind
from oh_daemon.core.context import NOTHING, told_of_editor
from oh_daemon.core.folding import apply
from oh_daemon.core.ports import Clock, EventLog
from oh_daemon.core.secrets import Masker
from oh_daemon.core.state import OpenTurn, State

T = TypeVar("T")


def new_id() -> str:
    return uuid.uuid4().hex


class Listener(Protocol):
    """Hears of a conversation in order. Called under its lock: put into a queue and return.

    A subclass need not implement every method.
    """

    def on_record(self, journal: Journal, line: bytes, record: plain.Record, /) -> None: ...

    def on_halted(self, journal: Journal, error: StorageError, /) -> None:
        """Hear that the log can no longer be written."""

    def on_delta(
        self, journal: Journal, item_id: str, channel: str, offset: int, text: str, /
    ) -> None:
        """Hear a piece of streamed text; the item has all of it when it ends."""


class Journal:
    """Thread-safe. To read more than one value of `state`, hold `changed`."""

    def __init__(
        self, state: State, log: EventLog, *, epoch: str, clock: Clock, masker: Masker
    ) -> None:
        self.id = state.conversation_id
        self.state = state
        self.log = log
        self.epoch = epoch
        self.clock = clock
        self.masker = masker
        self.halted: StorageError | None = None
        """Set while the log cannot be written; only `resume` or a message clears it."""
        self.listeners: list[Listener] = []
        self.seen_in_editor: Callable[[], dict[str, str]] = dict[str, str]
        """Returns what the user's editor shows, as `core.context` renders it; must not wait."""
        self.skill_kinds: Callable[[], Mapping[str, SkillKind]] = dict[str, SkillKind]
        """Returns the skills that a message may name; must not wait."""
        self.changed = threading.Condition(threading.RLock())
        self._waiters: list[tuple[Callable[[plain.Record], Any], Future[Any]]] = []

    def append(
        self,
        *events: Contract,
        turn_id: str | None = None,
        item_id: str | None = None,
        cause: e.Cause | None = None,
    ) -> None:
        """Write the events in one piece, fold them, tell the listeners.

        `cause` goes into the last one. Raises `StorageError`; then nothing has changed.
        """
        with self.changed:
            turn = turn_id or self.state.turn_id
            lines = [
                self._render_line(
                    e.Record.model_construct(
                        seq=self.state.seq + n,
                        ts=self.clock.now(),
                        turn_id=None if isinstance(event, _WITHOUT_TURN) else turn,
                        item_id=self._item_of(event) or item_id,
                        cause=cause if n == len(events) else None,
                        event=event,
                    )
                )
                for n, event in enumerate(events, 1)
            ]
            self.log.append(b"".join(lines))
            records = [self._take_in(line[:-1]) for line in lines]
            # Whoever is woken finds the state after all of the events.
            for waiter in tuple(self._waiters):
                if any(_is_answered(*waiter, record) for record in records):
                    self._waiters.remove(waiter)
            self.changed.notify_all()

    @property
    def status(self) -> str:
        """The status after the last whole append, never between two events of one."""
        with self.changed:
            return self.state.status

    def lines(self) -> list[bytes]:
        """Return all events as stored. Raises `StorageError`."""
        with self.changed:
            last_seq = self.state.seq
        return self.log.read_range(1, last_seq)

    def append_to(self, item_id: str, *events: Contract) -> bool:
        """Append events about an action; return False, with none appended, if it has ended."""
        with self.changed:
            is_open = item_id in self.state.open_items
            if is_open:
                self.append(*events, item_id=item_id)
            return is_open

    def _item_of(self, event: Contract) -> str | None:
        match event:
            case e.ItemStarted() | e.ItemCompleted():
                return event.item.id
            case e.ApprovalRequested():
                return event.approval.item_id
            case e.ApprovalResolved():
                return self.state.pending[event.approval_id]["itemId"]
            case e.InputRequested():
                return event.input.item_id
            case e.InputResolved():
                return self.state.pending[event.input_id]["itemId"]
            case _:
                return None

    def _render_line(self, record: e.Record) -> bytes:
        text = record.model_dump_json(exclude_none=True, serialize_as_any=True)
        return self.masker.mask(text).encode("utf-8", "replace") + b"\n"

    def _take_in(self, line: bytes) -> plain.Record:
        record: plain.Record = orjson.loads(line)
        apply(self.state, record)
        for listener in tuple(self.listeners):
            listener.on_record(self, line, record)
        return record

    def abandon_waiters(self, reason: DaemonError) -> None:
        """Fail everyone who still waits for a record with the reason why none will come."""
        with self.changed:
            abandoned, self._waiters = self._waiters, []
            for _, found in abandoned:
                found.set_exception(reason)

    def publish_delta(self, item_id: str, channel: str, offset: int, text: str) -> None:
        """Pass on streamed text; it is never logged."""
        with self.changed:
            for listener in tuple(self.listeners):
                listener.on_delta(self, item_id, channel, offset, text)

    def user_message(self, message: QueuedMessage) -> e.ItemCompleted:
        item = UserMessageItem(
            id=new_id(),
            message_id=message.message_id,
            client_message_id=message.client_message_id,
            content=message.content,
            delivery=message.delivery,
            editor=self._news_of_editor(message) or None,
            ended_at=self.clock.now(),
        )
        return e.ItemCompleted(item=item)

    def _news_of_editor(self, message: QueuedMessage) -> dict[str, str]:
        shown = {key: self.masker.mask(value) for key, value in self.seen_in_editor().items()}
        if any(part.type == "selection" for part in message.content):
            shown.pop("selection", None)  # The user chose a selection to send.
        told = told_of_editor(self.state.items)
        return {key: value for key, value in shown.items() if told.get(key, NOTHING) != value}

    def status_event(self, to: ConversationState, reason: PauseReason | None = None) -> Contract:
        return e.StatusChanged(from_=self.state.status, to=to, reason=reason)

    @property
    def is_paused(self) -> bool:
        """Whether the open turn is paused, until `resume` or a message."""
        turn = self.state.turn
        return turn is not None and turn.is_paused

    def pause_turn(self, reason: PauseReason, cause: e.Cause | None = None) -> None:
        """Pause the open turn, with nothing under way in it, unless it is being interrupted."""
        with self.changed:
            if self.state.status == "interrupting":
                return
            paused = self.status_event("paused", reason)
            self.append(e.TurnPaused(reason=reason), paused, cause=cause)

    def await_record(self, read: Callable[[plain.Record], T | None]) -> Future[T]:
        """Resolve with the first value that `read`, run under the lock, makes of a new record."""
        found: Future[T] = Future()
        found.set_running_or_notify_cancel()  # From here on nobody can cancel it.
        self._waiters.append((read, found))
        return found

    def turn_ended(self, message_id: str, turn_id: str | None) -> Future[plain.Turn]:
        """Resolve with the turn that answers this message, once it has completed or paused.

        `turn_id` is the turn that the message was meant for; if that one completes without having
        seen it, the message starts the next turn.
        """

        def read(record: plain.Record) -> plain.Turn | None:
            nonlocal turn_id
            event = record["event"]
            match event["type"]:
                case "item.completed" if event["item"].get("messageId") == message_id:
                    turn_id = record.get("turnId")
                case "message.dequeued" if event["messageId"] == message_id:
                    if event["outcome"] == "removed":
                        raise InvalidStateError(f"message {message_id!r} was taken from the queue")
                case "turn.completed" if record.get("turnId") == turn_id:
                    if not self._begins_a_turn(message_id, event["turn"]):
                        return event["turn"]
                case "turn.paused" if record.get("turnId") == turn_id:
                    return _paused(self.state.open_turn)
                case _:
                    pass
            return None

        with self.changed:
            return self.await_record(read)

    def _begins_a_turn(self, message_id: str, last_turn: plain.Turn) -> bool:
        """Return whether the message is still queued, and the queue goes on after this turn."""
        goes_on = last_turn["status"] == "completed" and self.state.status in {"idle", "finished"}
        return goes_on and any(m["messageId"] == message_id for m in self.state.queue)


def _paused(turn: OpenTurn) -> plain.Turn:
    paused: plain.Turn = {
        "id": turn.id,
        "status": "paused",
        "startedAt": turn.started_at,
        "nSteps": turn.n_steps,
    }
    return paused if turn.usage is None else {**paused, "usage": turn.usage}


def _is_answered(
    read: Callable[[plain.Record], Any], found: Future[Any], record: plain.Record
) -> bool:
    try:
        result = read(record)
    except UserError as exc:
        found.set_exception(exc)
        return True
    if result is not None:
        found.set_result(result)
    return result is not None


_WITHOUT_TURN = (
    *(e.StatusChanged, e.OptionsChanged, e.AgentChanged),
    *(e.ConversationCreated, e.ConversationRolledBack),
)
