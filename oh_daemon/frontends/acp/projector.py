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
        self._is_over = False
        threading.Thread(target=self._run, name="projector", daemon=True).start()

    def put(self, act: Callable[[], object]) -> None:
        self._work.put(act)

    def end(self, timeout_s: float) -> None:
        """Wait for the work that was handed over so far, at most this long; do no more then."""
        is_done = threading.Event()
        self.put(is_done.set)
        is_done.wait(timeout_s)
        self._is_over = True

    def _run(self) -> None:
        while not self._is_over:
            act = self._work.get()
            try:
                act()
            except Exception:
                log.exception("an update is left out")
