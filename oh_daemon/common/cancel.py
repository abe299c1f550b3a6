"""Cancellation: a token that wakes the threads that wait. Nothing polls it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Cancelled(BaseException):
    """The turn was interrupted; code that catches this cleans up and raises it again."""


class CancelToken:
    """One-way switch. Callbacks run once, on the thread that cancels, so they must be short."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._next_key = 0

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self) -> None:
        with self._lock:
            self._event.set()
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when cancelled (at once if it already is); the result unregisters it."""
        with self._lock:
            if not self._event.is_set():
                key = self._next_key = self._next_key + 1
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    @contextmanager
    def notifying(self, condition: threading.Condition) -> Generator[None]:
        """Let a cancel wake waiters on `condition`, which must not be held when this begins."""

        def wake() -> None:
            with condition:
                condition.notify_all()

        forget = self.on_cancel(wake)
        try:
            yield
        finally:
            forget()

    def wait(self, timeout_s: float) -> bool:
        """Sleep at most `timeout_s` seconds; return whether it was cancelled meanwhile."""
        return self._event.wait(timeout_s)

    def raise_if_cancelled(self) -> None:
        if self._event.is_set():
            raise Cancelled

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)
