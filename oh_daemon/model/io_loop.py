"""The one asyncio loop on which every call to a provider runs, on a thread of its own.

Worker threads block in `run`; a cancel wakes them at once and ends the coroutine behind them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from functools import cache
from typing import Any, TypeVar

from oh_daemon.core.cancel import Cancelled, CancelToken

T = TypeVar("T")


class IoLoop:
    """Started by the first `run`; never stopped, since its thread ends with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, T], cancel: CancelToken) -> T:
        """Block until the coroutine is done. Raises `Cancelled` without waiting for its cleanup."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())

        def stop() -> None:
            future.cancel()

        forget = cancel.on_cancel(stop)
        try:
            return future.result()
        except CancelledError:
            raise Cancelled from None
        finally:
            forget()
            stop()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="io-loop", daemon=True).start()
            return self._loop


@cache
def shared_loop() -> IoLoop:
    """The loop of this process; connections are pooled per loop, so one serves all models."""
    return IoLoop()
