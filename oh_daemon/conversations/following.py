"""Follows a conversation that another process works on, by reading its log as the log grows.

Nothing here changes the conversation. Following ends when the writer releases the log or dies, or
when the log is removed. A client that still wants the conversation then opens it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from oh_daemon.kernel.folding import apply
from oh_daemon.kernel.journal import History, Listener
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import State
from oh_daemon.storage.event_log import follow_log
from oh_daemon.storage.log_scan import LOG_NAME
from oh_daemon.system.watch import Watch

logger = logging.getLogger(__name__)


class Followed(History):
    """Reads on a thread of its own, and tells the listeners that all conversations have."""

    def __init__(self, place: Path, owner: Json, listeners: Sequence[Listener]) -> None:
        """`owner` is what the lock says about its holder. Raises like `follow_log`."""
        state = State(place.name)
        self._tail, epoch = follow_log(place, partial(apply, state))
        self._watch = _watch(place / LOG_NAME, owner.get("pid"))
        self.owner = owner
        super().__init__(state, self._tail, epoch=epoch)
        self.listeners.extend(listeners)
        self.repairs: tuple[str, ...] = ()
        """Always empty: a reader repairs nothing."""
        self._is_left = False
        self._thread: threading.Thread | None = None

    def start(self, on_over: Callable[[], object]) -> None:
        """Begin to follow. At the end the thread calls `on_over`, unless `leave` was called."""
        if self._watch is not None:
            args = (self._watch, on_over)
            name = f"follow-{self.id[:8]}"
            thread = threading.Thread(target=self._follow, args=args, name=name, daemon=True)
            thread.start()
            self._thread = thread

    @property
    def is_live(self) -> bool:
        """Whether more events may come; otherwise the state stays as it was read."""
        return self._thread is not None and not self._is_left

    def leave(self) -> None:
        """Stop following: listeners get no more events."""
        with self.condition:
            if self._is_left:
                return
            self._is_left = True
            if self._watch is not None:
                self._watch.stop()
        if self._thread is None:
            self._release()

    def _follow(self, watch: Watch, on_over: Callable[[], object]) -> None:
        try:
            while self._read_on() and watch.wait():
                pass
            self._read_on()  # What the writer wrote just before it ended.
        finally:
            with self.condition:
                is_left, self._is_left = self._is_left, True
            self.owner = {}
            self._release()
            if not is_left:
                on_over()

    def _release(self) -> None:
        self._tail.close()
        if self._watch is not None:
            self._watch.close()

    def _read_on(self) -> bool:
        """Apply new records; return False when no more will come."""
        lines, goes_on = self._tail.read_on()
        with self.condition:
            if self._is_left:
                return False
            self.take_in(lines)
            return goes_on


def _watch(path: Path, pid: int | None) -> Watch | None:
    try:
        return Watch(path, pid)
    except OSError as exc:
        logger.warning("%s cannot be followed live: %s", path, exc)
        return None
