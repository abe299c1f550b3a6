"""One edit at a time per file, across all conversations of the daemon.

A path is claimed rather than locked: no mutex is held while an editor is asked, and a cancel wakes
those who wait.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from oh_daemon.core.cancel import CancelToken


class PathLocks:
    """The claims on paths, shared by all conversations."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._claimed: set[Path] = set()

    @contextmanager
    def hold(self, path: Path, cancel: CancelToken) -> Generator[None]:
        """Claim a real path, blocking while another holds it. Raises `Cancelled` when cancelled."""
        with cancel.notifying(self._changed), self._changed:
            self._changed.wait_for(lambda: cancel.is_cancelled or path not in self._claimed)
            cancel.raise_if_cancelled()
            self._claimed.add(path)
        try:
            yield
        finally:
            with self._changed:
                self._claimed.discard(path)
                self._changed.notify_all()
