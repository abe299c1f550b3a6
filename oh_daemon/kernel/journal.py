"""The spine of a conversation: one lock, one append, one fold, and its listeners.

An event is written before it is folded, and folded before anyone hears of it. The write happens
under the lock (2 microseconds), which keeps file order, `seq` order and wire order the same.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import orjson

from oh_daemon.common.masking import MaskedStream, Masker
from oh_daemon.kernel.folding import apply
from oh_daemon.kernel.ports import Clock, EventLog, LogReader
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import DaemonError, InvalidStateError, StorageError, UserError
from oh_daemon.protocol.forms import line_of

T = TypeVar("T")


def new_id() -> str:
    return uuid.uuid4().hex


class Listener(Protocol):
    """Hears of a conversation in order. Called under its lock: put into a queue and return.

    A subclass need not implement every method.
    """

    def on_record(self, history: History, line: bytes, record: plain.Record, /) -> None: ...

    def on_halted(self, history: History, error: StorageError, /) -> None:
        """Hear that the log can no longer be written."""

    def on_delta(
        self, history: History, item_id: str, channel: str, offset: int, text: str, /
    ) -> None:
        """Hear a piece of streamed text; the item has all of it when it ends."""


class History:
    """A log as it is read: the fold of its records, and who hears of new ones. Thread-safe.

    To read more than one value of `state`, hold `changed`.
    """

    storage_error: StorageError | None = None
    """Set while the log cannot be written; only `resume` or a message clears it."""

    def __init__(self, state: State, log: LogReader, *, epoch: str) -> None:
        self.id = state.conversation_id
        self.state = state
        self.epoch = epoch
        self.listeners: list[Listener] = []
        self.condition = threading.Condition(threading.RLock())
        self._log = log
        self._waiters: list[tuple[Callable[[plain.Record], Any], Future[Any]]] = []

    @property
    def log(self) -> LogReader:
        return self._log

    @property
    def status(self) -> str:
        """The status after the last whole append, never between two events of one."""
        with self.condition:
            return self.state.status

    def lines(self) -> list[bytes]:
        """Return all events as stored. Raises `StorageError`."""
        with self.condition:
            last_seq = self.state.seq
        return self.log.read_range(1, last_seq)

    def await_record(self, read: Callable[[plain.Record], T | None]) -> Future[T]:
        """Resolve with the first value that `read`, run under the lock, makes of a new record."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # From here on it cannot be cancelled.
        self._waiters.append((read, future))
        return future

    def abandon_waiters(self, reason: DaemonError) -> None:
        """Fail everyone who still waits for a record with the reason why none will come."""
        with self.condition:
            waiters, self._waiters = self._waiters, []
            for _, future in waiters:
                future.set_exception(reason)

    def take_in(self, lines: Sequence[bytes]) -> None:
        """Fold what the log has got, each line without its newline, and tell everyone of it."""
        with self.condition:
            records: list[plain.Record] = []
            for line in lines:
                record: plain.Record = orjson.loads(line)
                apply(self.state, record)
                for listener in tuple(self.listeners):
                    listener.on_record(self, line, record)
                records.append(record)
            # Whoever is woken finds the state after all of the events.
            for waiter in tuple(self._waiters):
                if any(_is_answered(*waiter, record) for record in records):
                    self._waiters.remove(waiter)
            self.condition.notify_all()


class Journal(History):
    """The log of a conversation that is at work here: what alone can append to it."""

    def __init__(
        self, state: State, log: EventLog, *, epoch: str, clock: Clock, masker: Masker
    ) -> None:
        super().__init__(state, log, epoch=epoch)
        self._appendable = log
        self.clock = clock
        self.masker = masker
        self.is_closing = False
        """Whether its worker is ending; what is open then stays open for the next one."""

    @property
    def log(self) -> EventLog:
        return self._appendable

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
        with self.condition:
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
            for event in events:
                if isinstance(event, e.ItemCompleted):
                    self.log.partial.end(event.item.id)
            self.take_in([line[:-1] for line in lines])

    def wake(self) -> None:
        """Let the worker look again whether there is anything to do. For any thread."""
        with self.condition:
            self.condition.notify_all()

    def append_to(self, item_id: str, *events: Contract) -> bool:
        """Append events about an action; return False, with none appended, if it has ended."""
        with self.condition:
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
        return self.masker.mask(line_of(record)).encode("utf-8", "replace") + b"\n"

    def publish_delta(self, item_id: str, channel: str, offset: int, text: str) -> None:
        """Pass on streamed text, and keep it beside the log until the item has ended."""
        with self.condition:
            if item_id not in self.state.open_items:
                return  # What a shell writes may come late.
            self.log.partial.add(item_id, text)
            for listener in tuple(self.listeners):
                listener.on_delta(self, item_id, channel, offset, text)

    def halt(self, error: StorageError) -> None:
        """Stand still until a client resumes: the log cannot be written."""
        with self.condition:
            self.storage_error = error
            for listener in tuple(self.listeners):
                listener.on_halted(self, error)
            # No event can report this, yet nobody must wait for a turn for ever.
            self.abandon_waiters(error)

    def require_open(self) -> None:
        if self.is_closing:
            raise InvalidStateError("the conversation is closed; open it again")


def _is_answered(
    read: Callable[[plain.Record], Any], future: Future[Any], record: plain.Record
) -> bool:
    try:
        result = read(record)
    except UserError as exc:
        future.set_exception(exc)
        return True
    if result is not None:
        future.set_result(result)
    return result is not None


_WITHOUT_TURN = (
    *(e.StatusChanged, e.OptionsChanged, e.AgentChanged),
    *(e.ConversationCreated, e.ConversationRolledBack),
)


class TextStream:
    """One channel of one item. Write from one thread at a time."""

    def __init__(self, journal: Journal, item_id: str, channel: str) -> None:
        self.item_id = item_id
        self._journal = journal
        self._channel = channel
        self._masked_stream = MaskedStream(journal.masker)
        self._n_sent_chars = 0

    def write(self, text: str) -> None:
        self._publish(self._masked_stream.feed(text))

    def close(self) -> None:
        """Publish the text that was held back because it might have become a secret."""
        self._publish(self._masked_stream.flush())

    def _publish(self, text: str) -> None:
        if text:
            self._journal.publish_delta(self.item_id, self._channel, self._n_sent_chars, text)
            self._n_sent_chars += len(text)
