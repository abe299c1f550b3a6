"""The thread that makes logs durable: groups `fdatasync` calls of all conversations.

A log waits at most `group_s` for company, and not at all when someone waits for it. What is synced
and how is the log's business; appending never waits for this thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from oh_daemon.contract.errors import StorageError


class Committable(Protocol):
    """What can be made durable."""

    def commit(self) -> StorageError | None:
        """Make everything written so far durable. Called from the commit thread only."""
        ...

    def note_unseen_error(self, error: StorageError) -> None:
        """A commit did not succeed and nobody waited for it: the next append must say so."""
        ...


class CommitThread:
    """One for the whole daemon. Callbacks run on it, in order, and must not wait for a sync."""

    def __init__(self, group_s: float = 0.05) -> None:
        self._group_s = group_s
        self._changed = threading.Condition()
        self._pending: dict[Committable, list[Future[StorageError | None]]] = {}
        self._is_urgent = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="log-commit", daemon=True)
        self._thread.start()

    def schedule(self, log: Committable) -> None:
        """Sync `log` soon; nobody waits for it."""
        with self._changed:
            self._pending.setdefault(log, [])
            self._changed.notify()

    def request(
        self, log: Committable, callback: Callable[[StorageError | None], None] | None = None
    ) -> Future[StorageError | None]:
        """Sync `log` now. The result is the error, if any; `callback` gets it on this thread."""
        future: Future[StorageError | None] = Future()
        if callback is not None:
            # A Future logs and drops what a callback raises, so one bad callback stops nobody.
            future.add_done_callback(lambda done: callback(done.result()))
        with self._changed:
            if not self._is_closing:
                self._pending.setdefault(log, []).append(future)
                self._is_urgent = True
                self._changed.notify()
                return future
        future.set_result(StorageError("the daemon is stopping, so the log is no longer synced"))
        return future

    def close(self) -> None:
        """Sync what is pending and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            for log, waiting in batch.items():
                error = log.commit()
                if error is not None and not waiting:
                    log.note_unseen_error(error)
                for future in waiting:
                    future.set_result(error)

    def _next_batch(self) -> dict[Committable, list[Future[StorageError | None]]]:
        """Whatever came in since the last sync began; empty when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._is_closing)
            self._changed.wait_for(lambda: self._is_urgent or self._is_closing, self._group_s)
            self._is_urgent = False
            batch, self._pending = self._pending, {}
            return batch
