"""The one thread that makes updates: what conversations report, in order, and answers in between.

Listeners run under a conversation's lock and only hand work over. Invariant: work that breaks
leaves out what it would have sent, and nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

log = logging.getLogger(__name__)


class Projector:
    """Any thread may hand work over; it is done in that order."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        threading.Thread(target=self._run, name="projector", daemon=True).start()

    def put(self, act: Callable[[], object]) -> None:
        self._work.put(act)

    def drain(self, timeout_s: float) -> None:
        """Wait until all work that was handed over so far is done, at most this long."""
        is_done = threading.Event()
        self.put(is_done.set)
        is_done.wait(timeout_s)

    def _run(self) -> None:
        while True:
            act = self._work.get()
            try:
                act()
            except Exception:
                log.exception("an update is left out")
