"""Calls a program's functions with the events of its conversation, on a thread of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from oh_daemon.features.skills.prompts import typed_part
from oh_daemon.kernel.journal import History, Listener
from oh_daemon.protocol import plain as logged
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.events import Record
from oh_daemon.protocol.forms import model_of

logger = logging.getLogger(__name__)

T = TypeVar("T")
EventCallback = Callable[[Record], object]
_Function = TypeVar("_Function", bound=Callable[..., object])
_ASKING = frozenset({"approval.requested", "approval.resolved"})


def require_sync(function: _Function) -> _Function:
    """Return the function. Raises `ValueError` if it is async: nobody would await it here."""
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        raise ValueError(
            f"{function!r} is async; give a plain function that calls asyncio.run, or "
            "asyncio.run_coroutine_threadsafe with your loop"
        )
    return function


class Callbacks(Listener):
    """Delivers events on a thread of its own, so that a callback may use the conversation.

    Only logged events: when the log cannot be written, the program's next call raises that.
    """

    def __init__(self) -> None:
        self._callbacks: dict[object, EventCallback] = {}
        """Each under its own key, because the same callback may be added twice."""
        self._is_mine = threading.local()
        self._thread = ThreadPoolExecutor(
            1, "callbacks", initializer=lambda: setattr(self._is_mine, "yes", True)
        )

    def add(self, callback: EventCallback) -> Callable[[], None]:
        """Raises `ValueError` for an async function."""
        key = object()
        self._callbacks[key] = require_sync(callback)

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    def on_record(self, history: History, line: bytes, record: logged.Record) -> None:  # noqa: ARG002 - the listener's shape.
        # Of a sub-agent, pass on only what the program must answer; its own log has the rest.
        if history.state.parent_id is not None and record["event"]["type"] not in _ASKING:
            return
        for callback in tuple(self._callbacks.values()):
            self.submit(callback, model_of(Record, record))

    def submit(self, callback: Callable[[Any], object], value: object) -> None:
        """Queue one call on the callbacks' thread, unless that has ended."""
        # A tool may outlive the conversation; what is logged then is for no callback any more.
        with suppress(RuntimeError):
            self._thread.submit(callback, value).add_done_callback(_report)

    def drain(self, timeout_s: float | None) -> None:
        """Wait until all events so far are delivered; return at once inside a callback."""
        if not self._is_on_it():
            self._thread.submit(int).result(timeout_s)

    def close(self) -> None:
        self._thread.shutdown(wait=not self._is_on_it())

    def _is_on_it(self) -> bool:
        return hasattr(self._is_mine, "yes")


def _report(call: Future[object]) -> None:
    if exc := call.exception():
        logger.error("a callback of the program raised", exc_info=exc)


def check_answer(answer: object) -> str | None:
    if not isinstance(answer, str | None):
        raise TypeError(f"on_question returned {answer!r}; it returns text or None")
    return answer


def part_of(text: str) -> Part:
    """Return a message of the program. Raises `InvalidParamsError` for an empty one."""
    if not text.strip():
        raise InvalidParamsError("text: the message is empty; say what to do")
    return typed_part(text)


def waited(end: Future[T], timeout_s: float | None) -> T:
    """Wait for the end of a turn. Raises `TimeoutError`."""
    try:
        return end.result(timeout_s)
    except TimeoutError:
        raise TimeoutError(f"the turn has not ended within {timeout_s} s") from None
