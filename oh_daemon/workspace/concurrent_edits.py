"""Edits at the same time: one per file, across all conversations, and several files at once.

A path is claimed rather than locked: no mutex is held while an editor is asked, and a cancel wakes
those who wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from oh_daemon.common.cancel import CancelToken


class PathLocks:
    """The claims on paths, shared by all conversations."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._claimed_paths: set[Path] = set()

    @contextmanager
    def hold(self, path: Path, cancel: CancelToken) -> Generator[None]:
        """Claim a real path, blocking while another holds it. Raises `Cancelled` when cancelled."""
        with cancel.notifying(self._condition), self._condition:
            self._condition.wait_for(lambda: cancel.is_cancelled or path not in self._claimed_paths)
            cancel.raise_if_cancelled()
            self._claimed_paths.add(path)
        try:
            yield
        finally:
            with self._condition:
                self._claimed_paths.discard(path)
                self._condition.notify_all()


# Each file waits for the disk; more threads contend for Python's lock.
MAX_IN_TURN, _AT_ONCE, _IN_GROUP = 50, 4, 10

Row = TypeVar("Row")
Result = TypeVar("Result")


def for_each(act: Callable[[Row], Result], rows: Sequence[Row]) -> list[Result]:
    """Return the results in order. Raises the first error, when nothing runs any more."""
    if len(rows) <= MAX_IN_TURN:
        return [act(row) for row in rows]

    def act_on(group: Sequence[Row]) -> list[Result]:
        return [act(row) for row in group]

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="files") as pool:
        groups = (rows[n : n + _IN_GROUP] for n in range(0, len(rows), _IN_GROUP))
        futures = [pool.submit(act_on, group) for group in groups]
        try:
            return [result for future in futures for result in future.result()]
        finally:
            pool.shutdown(cancel_futures=True)
