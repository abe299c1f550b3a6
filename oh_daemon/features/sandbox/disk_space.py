"""Watches the space that the layers of a sandbox leave to other programs on their disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from oh_daemon.features.sandbox.layer import entries, is_folder, open_folder, within

_LAYERS = ("upper-", "cache-")
_GROWTH = 16 << 20
_FASTEST = 4 << 30
"""No disk is expected to take more bytes per second."""
_FIRST_LOOK_S, _LAST_LOOK_S = 0.1, 60.0


class DiskSpace:
    """The space that the layers of a sandbox leave free on their disk."""

    def __init__(self, place: Path, reserve: int) -> None:
        """The layers lie in `place`; other programs should find `reserve` bytes free."""
        self._place = place
        self._reserve = reserve
        self._least: int | None = None
        """The smallest size of the layers since less than the reserve is free."""
        self._pause_s = 0.0
        """For how long the reserve cannot be used up after the last look."""

    def watch(self, is_over: threading.Event, on_full: Callable[[], object]) -> None:
        """Call `on_full` when the space is used up; return then, or when the watch is over."""
        # The folder is removed when the sandbox is closed.
        with suppress(FileNotFoundError):
            while not is_over.wait(self._pause_s):
                if self._is_used_up():
                    on_full()
                    return

    def _is_used_up(self) -> bool:
        """Whether the layers have grown into the reserve, or half of it is gone.

        For the second half the cause does not count: what no layer lists any more, since it was
        deleted while it is open, takes space too.
        """
        start_s = time.monotonic()
        stats = os.statvfs(self._place)
        free, has_grown = stats.f_bavail * stats.f_frsize, False
        if free < self._reserve:
            size = _size_of_layers(self._place)
            self._least = min(size, size if self._least is None else self._least)
            has_grown = size > self._least + _GROWTH
        else:
            self._least = None
        took_s = time.monotonic() - start_s
        unused_s = min((free - self._reserve) / _FASTEST, _LAST_LOOK_S)
        self._pause_s = max(_FIRST_LOOK_S, 5 * took_s, unused_s)
        return has_grown or free < self._reserve // 2


def _size_of_layers(place: Path) -> int:
    """Return how many bytes the layers in a folder take, without files that have no name."""
    size, stack = 0, [layer.name for layer in place.iterdir() if layer.name.startswith(_LAYERS)]
    with open_folder(place) as root:
        while stack:
            name = stack.pop()
            # It is gone, or its name is too long.
            with suppress(OSError), within(root, name) as folder:
                for child, entry in entries(folder).items():
                    size += entry.st_blocks * 512  # stat(2)
                    if is_folder(entry):
                        stack.append(f"{name}/{child}")
    return size
