"""What a program's conversation does alike, whether its agent works here or elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import orjson

from oh_daemon.frontends.library.callbacks import (
    Callbacks,
    EventCallback,
    check_answer,
    part_of,
    require_sync,
)
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.approvals import InputRequest, InputRequested
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.events import Record
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import Delivery, Turn

QuestionCallback = Callable[[InputRequest], str | None]


class ProgramConversation(ABC):
    """Runs turns to their end, and calls the program's functions on one thread."""

    def __init__(self, on_question: QuestionCallback | None) -> None:
        self._calls = Callbacks()
        self._on_question = on_question and require_sync(on_question)

    @property
    @abstractmethod
    def _events(self) -> History:
        """What has been logged so far."""

    @abstractmethod
    def _send(
        self,
        part: Part,
        images: Sequence[str | Path],
        model: str | None,
        delivery: Delivery = "auto",
    ) -> Json: ...

    @abstractmethod
    def _resume(self) -> Json: ...

    @abstractmethod
    def _until_rest(self, begin: Callable[[], Json], timeout_s: float | None) -> Turn:
        """Begin a turn, and wait until it ends or pauses."""

    @abstractmethod
    def _reply(self, question: InputRequest, text: str | None) -> None:
        """Answer a question; without a text, decline."""

    @abstractmethod
    def close(self) -> None:
        """Interrupt a running turn; end what the conversation has started; deliver all events."""

    def register_callback(self, callback: EventCallback) -> Callable[[], None]:
        """Call `callback` with each later event, on one thread; return a function to remove it.

        Of sub-agents, only their approvals are delivered. An exception in `callback` is logged.
        """
        return self._calls.add(callback)

    def run(
        self,
        message: str | None = None,
        timeout_s: float | None = None,
        *,
        images: Sequence[str | Path] = (),
        model: str | None = None,
    ) -> Turn:
        """Send `message` (None: resume), wait until the turn ends or pauses, and return it.

        By then callbacks have seen all its events. Raises `TimeoutError` (the turn goes on), and
        what `send_message` raises.
        """
        if message is None:
            return self._until_rest(self._resume, timeout_s)
        return self._until_rest(lambda: self._send(part_of(message), images, model), timeout_s)

    def continue_or_run(self, message: str, timeout_s: float | None = None) -> Turn:
        """Bring one task to its end, however often the program is killed: call it after each start.

        Sends `message` to a conversation without turns, goes on with a turn that was cut off or
        failed, and otherwise returns the last one, also if a limit ended it. See `run`.
        """
        with self._events.condition:
            turn, last = self._events.state.turn, self._events.state.last_turn
        if turn is None and last is not None and last["status"] == "completed":
            return model_of(Turn, last)
        return self.run(message if turn is None and last is None else None, timeout_s)

    def _begin_to_answer(self) -> None:
        if self._on_question is None:
            return
        self._calls.add(self._answer_new)
        # The first answer may arrive while the other questions are still being submitted.
        for question in tuple(self._events.state.questions.values()):
            self._calls.submit(self._answer, model_of(InputRequest, question))

    def _answer_new(self, record: Record) -> None:
        if isinstance(record.event, InputRequested):
            self._answer(record.event.input)

    def _answer(self, question: InputRequest) -> None:
        """Answer even when the program's function raises, so that the agent never waits forever."""
        text = None
        try:
            text = check_answer(self._on_question(question)) if self._on_question else None
        finally:
            self._reply(question, text if text and text.strip() else None)

    @property
    def history(self) -> tuple[Record, ...]:
        """All events so far, read from the log. Raises `StorageError`."""
        return tuple(model_of(Record, orjson.loads(line)) for line in self._events.lines())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
