"""The single asyncio loop, on a thread of its own, for the libraries that need one.

Worker threads block in `run_on_loop`; a cancel wakes them at once and cancels their coroutine. The
loop is never stopped: its thread ends with the process.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from functools import cache, partial
from typing import Any, Never, TypeVar

from oh_daemon.common.cancel import Cancelled, CancelToken

T = TypeVar("T")
_STARTING = threading.Lock()


def run_on_loop(coroutine: Coroutine[Any, Any, T], cancel: CancelToken) -> T:
    """Block until the coroutine is done. Raises `Cancelled` without waiting for its cleanup."""
    with _STARTING:
        loop = _running_loop()
    future = asyncio.run_coroutine_threadsafe(_outcome(coroutine), loop)

    def stop() -> None:
        future.cancel()

    forget = cancel.on_cancel(stop)
    try:
        outcome = future.result()
    except CancelledError:
        loop.call_soon_threadsafe(_close_unbegun, coroutine)
        raise Cancelled from None
    finally:
        forget()
        stop()
    return outcome()


async def _outcome(coroutine: Coroutine[Any, Any, T]) -> Callable[[], T]:
    """Return a function with the outcome, as asyncio logs errors that nobody waits for."""
    try:
        result = await coroutine
    except Exception as exc:  # noqa: BLE001 - raised where somebody waits for it.
        return partial(_raise, exc)
    return lambda: result


def _close_unbegun(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that never began: from Python 3.14 on, cancelling at once leaves one.

    Otherwise Python would warn about it.
    """
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        coroutine.close()


def _raise(error: Exception) -> Never:
    raise error


@cache
def _running_loop() -> asyncio.AbstractEventLoop:
    """Start the loop at its first use."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="io-loop", daemon=True).start()
    return loop
