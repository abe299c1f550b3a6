"""Does the same with many files, several at once where each waits for the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MAX_IN_TURN, _AT_ONCE = 50, 16

Row = TypeVar("Row")
Result = TypeVar("Result")


def for_each(act: Callable[[Row], Result], rows: Sequence[Row]) -> list[Result]:
    """Return the results in order. Raises the first error, when nothing runs any more."""
    if len(rows) <= MAX_IN_TURN:
        return [act(row) for row in rows]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="files") as pool:
        futures = [pool.submit(act, row) for row in rows]
        try:
            return [future.result() for future in futures]
        finally:
            pool.shutdown(cancel_futures=True)
