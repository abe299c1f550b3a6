"""What is mounted on this machine, as far as views depend on it; see mountinfo in proc(5)."""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

_CHANGED = select.POLLERR | select.POLLPRI


class _Mount(NamedTuple):
    device: str
    place: Path
    kind: str


@dataclass(slots=True)
class _Table:
    """The mounts of one process, read again only when poll(2) says that they have changed.

    This is asked at each command and by each `daemon/status`. While a hundred conversations work,
    each system call is a wait for the interpreter, so it is one, and no lock is held across it.
    """

    _descriptor: int
    _mounts: Sequence[_Mount] = ()

    def __post_init__(self) -> None:
        self._mounts = self._read()

    def mounts(self) -> Sequence[_Mount]:
        """Return the same object as long as nothing has changed."""
        news = select.poll()  # Two threads must not use one at the same time.
        news.register(self._descriptor, _CHANGED)
        if news.poll(0):
            self._mounts = self._read()
        return self._mounts

    def _read(self) -> Sequence[_Mount]:
        pieces, at = list[bytes](), 0
        while piece := os.pread(self._descriptor, 1 << 16, at):
            pieces.append(piece)
            at += len(piece)
        text = b"".join(pieces).decode(errors="surrogateescape")
        return tuple(map(_parsed, text.splitlines()))


_OPENING = threading.Lock()


def mounts() -> Sequence[object]:
    """Return the mounts: the same object as long as nothing has changed."""
    return _table().mounts()


def is_in_memory(place: Path) -> bool:
    """Return whether a folder lies in a tmpfs."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(mount.device == number and mount.kind == "tmpfs" for mount in _table().mounts())


def mounts_below(folder: Path) -> dict[Path, str]:
    """Return the places below a folder, by its real path, where a file system of a kind is mounted.

    Such a folder can be no lower layer for an ordinary user: without the mount, what it hides would
    be seen (`clone_private_mount` of fs/namespace.c).
    """
    start = str(folder / "_")[:-1]
    found = (mount for mount in _table().mounts() if str(mount.place).startswith(start))
    return {mount.place: mount.kind for mount in found}


def _table() -> _Table:
    # Another process, made by a fork, must not take the news of this one.
    with _OPENING:
        return _table_of(os.getpid())


@cache
def _table_of(_pid: int) -> _Table:
    return _Table(os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC))


def _parsed(line: str) -> _Mount:
    row = line.split(" ")
    place = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), row[4])
    return _Mount(row[2], Path(place), row[row.index("-") + 1])
