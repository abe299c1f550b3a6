"""Puts texts into a view when they change, so that what runs in it hears of them.

A thread does this, which ends when there is nothing more to do; what changes meanwhile is put in
together. Before the view has started nothing is done: it begins with all texts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.workspace.spawner import start_thread

logger = logging.getLogger(__name__)


class LiveText:
    """The changed texts of one conversation. `changed` may be called on any thread."""

    def __init__(
        self, is_running: Callable[[], bool], show: Callable[[Collection[Path]], None]
    ) -> None:
        """`show` puts texts in, by real path; it may block, and raise `OSError` and `ToolError`."""
        self._is_running = is_running
        self._show = show
        self._lock = threading.Lock()
        self._paths: set[Path] = set()
        self._is_at_work = False

    def changed(self, path: Path) -> None:
        """Note that the text at a real path has changed, in the editor or on the disk."""
        if not self._is_running():
            return
        with self._lock:
            self._paths.add(path)
            if self._is_at_work:
                return
            self._is_at_work = True
        try:
            start_thread("live-text", self._work)
        except OSError:
            with self._lock:
                self._is_at_work = False

    def _work(self) -> None:
        while paths := self._take():
            try:
                self._show(paths)
            except (OSError, ToolError) as exc:
                logger.warning("texts that changed are not seen in the view yet: %s", exc)

    def _take(self) -> Collection[Path]:
        """Return what has changed; the thread must end when that is nothing."""
        with self._lock:
            paths, self._paths = self._paths, set()
            self._is_at_work = bool(paths)
            return paths
