"""The one asyncio loop on which every call to a provider runs, on a thread of its own.

Worker threads block in `run_on_loop`; a cancel wakes them at once and ends the coroutine behind
them. The loop never stops, since its thread ends with the process.
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
_STARTING = threading.Lock()


def run_on_loop(coroutine: Coroutine[Any, Any, T], cancel: CancelToken) -> T:
    """Block until the coroutine is done. Raises `Cancelled` without waiting for its cleanup."""
    with _STARTING:
        loop = _running_loop()
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)

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


@cache
def _running_loop() -> asyncio.AbstractEventLoop:
    """Connections are pooled per loop, so one serves all models."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="io-loop", daemon=True).start()
    return loop
