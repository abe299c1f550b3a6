"""The thread that makes logs durable: it groups the `fdatasync` calls of all conversations.

A sync is delayed by at most 50 ms to join others, and not at all when someone waits for it. What
is synced and how is left to the log; appending never waits for this thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from oh_daemon.protocol.errors import StorageError
from oh_daemon.storage.partial_files import PartialThread

_GROUP_S = 0.05

Commit = Callable[[bool], StorageError | None]
"""Makes everything written so far durable. Called from the commit thread only; the argument says
whether somebody waits for the result."""


class CommitThread:
    """The daemon's only such thread. Callbacks run on it in order and must not wait for a sync."""

    def __init__(self) -> None:
        self.partial = PartialThread()
        """Writes what is not to be synced."""
        self._condition = threading.Condition()
        self._pending: dict[Commit, list[Future[StorageError | None]]] = {}
        self._is_urgent = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="log-commit", daemon=True)
        self._thread.start()

    def schedule(self, commit: Commit) -> None:
        """Sync soon, without anybody waiting for it."""
        with self._condition:
            # If something is pending already, the thread is awake, or waits for others to join.
            if not self._pending:
                self._condition.notify()
            self._pending.setdefault(commit, [])

    def request(
        self, commit: Commit, callback: Callable[[StorageError | None], None] | None = None
    ) -> Future[StorageError | None]:
        """Sync now; the future gives the error, if any, and `callback` gets it on this thread."""
        future: Future[StorageError | None] = Future()
        if callback is not None:
            # A Future logs and drops what a callback raises, so a bad callback stops nothing else.
            future.add_done_callback(lambda done_future: callback(done_future.result()))
        with self._condition:
            if not self._is_closing:
                self._pending.setdefault(commit, []).append(future)
                self._is_urgent = True
                self._condition.notify()
                return future
        future.set_result(StorageError("the daemon is stopping, so the log is no longer synced"))
        return future

    def close(self) -> None:
        """Sync what is pending and end the thread."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join()
        self.partial.close()

    def _run(self) -> None:
        while batch := self._next_batch():
            for commit, callbacks in batch.items():
                error = commit(bool(callbacks))
                for future in callbacks:
                    future.set_result(error)

    def _next_batch(self) -> dict[Commit, list[Future[StorageError | None]]]:
        """Return all requests since the last sync began; empty when it is time to stop."""
        with self._condition:
            self._condition.wait_for(lambda: self._pending or self._is_closing)
            self._condition.wait_for(lambda: self._is_urgent or self._is_closing, _GROUP_S)
            self._is_urgent = False
            batch, self._pending = self._pending, {}
            return batch
