"""A file of settings or decisions, read again only when it has changed. A use costs one `stat`.

What counts is the file that the path leads to: its number, size and times, so one that was put in
its place counts as changed, too (decision 77).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

_SECOND_NS = 1_000_000_000
_TICK_NS = 50_000_000
_COARSE_NS = 2 * _SECOND_NS


class CachedFile(Generic[T]):
    """Thread-safe. While the value stays equal, each use returns the same object."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        """`read` makes the value; what it raises is raised by the use."""
        self._path, self._name = path, str(path)
        self._read = read
        self._known: tuple[tuple[int, ...] | None, T] | None = None

    def value(self) -> T:
        """Return what `read` makes of the file as it is now."""
        stamp, known = _stamp(self._name), self._known
        if known is not None and known[0] == stamp:
            return known[1]
        is_settled = _is_settled(stamp)
        value = self._read(self._path)
        if known is not None and known[1] == value:
            value = known[1]
        self._known = (stamp if is_settled else None, value)
        return value


def _stamp(path: str) -> tuple[int, ...]:
    """Return what differs once the file has changed; of one that is not there, the error."""
    try:
        status = os.stat(path)  # noqa: PTH116 - runs many times in each step, as text.
    except OSError as exc:
        return (exc.errno or 0,)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *times)


def _is_settled(stamp: tuple[int, ...]) -> bool:
    """Return whether each later change shows in the stamp.

    Times move in ticks of the kernel (10 ms at most, see ktime_get_coarse_real_ts64), in some file
    systems in seconds, so what changed a moment ago may change again and look the same (the "racy
    git problem" of git's documentation).
    """
    *_, changed = stamp
    is_coarse = changed % _SECOND_NS == 0
    return changed + (_COARSE_NS if is_coarse else _TICK_NS) < time.time_ns()
