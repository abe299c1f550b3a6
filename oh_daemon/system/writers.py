"""Finds the processes that have files open for writing, so that no file is replaced under them.

A lease answers for one file at once, and for the processes of all users and containers: the kernel
refuses a read lease while any process has the file open for writing (fcntl(2), "Leases"). Only
then, or where the kernel grants no leases, /proc is searched for the names of the processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from oh_daemon.system.proc import descriptors, is_for_writing, open_flags, process_numbers

_PROBE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Identity = tuple[int, int]
"""Device and inode."""


class Writer(Struct, frozen=True):
    """A process that has a file open for writing, such as `Writer("node", 4242, True)`."""

    name: str
    """As in /proc/PID/comm; empty if the system hides the process."""
    pid: int
    is_appending: bool
    """Whether each of its writes goes to the end of the file (O_APPEND)."""


HIDDEN = Writer("", 0, is_appending=False)


def is_written(descriptor: int) -> bool | None:
    """Return whether any process has a file open for writing; `descriptor` is open for reading.

    None if the system does not say: a file of another user, a file system without leases (of the
    network, of a virtual machine's host), or a system without them, such as macOS.
    """
    if sys.platform != "linux":
        return None
    try:
        # A program that opens the file for writing at this moment waits for the second call. The
        # kernel signals that to us: SIGIO would end the process, SIGURG is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as exc:
        return True if exc.errno == errno.EAGAIN else None
    return False


def find_writers(paths: Iterable[Path]) -> dict[Path, tuple[Writer, ...]]:
    """Return the processes that have files open for writing, without this one, by path.

    A path without writers is left out. Follows no link at the end of a path.
    """
    suspects: dict[Path, tuple[Identity, bool | None]] = {}
    for path in paths:
        with suppress(OSError):  # It is gone, or it is a link.
            descriptor = os.open(path, _PROBE)
            try:
                status = os.fstat(descriptor)
                verdict = stat.S_ISREG(status.st_mode) and is_written(descriptor)
            finally:
                os.close(descriptor)
            if verdict is not False:
                suspects[path] = (status.st_dev, status.st_ino), verdict
    if not suspects:
        return {}
    writers: dict[Identity, list[Writer]] = {identity: [] for identity, _ in suspects.values()}
    for identity, writer in _open_for_writing(writers.keys()):
        writers[identity].append(writer)
    return {
        path: tuple(writers[identity]) or (HIDDEN,)
        for path, (identity, verdict) in suspects.items()
        if writers[identity] or verdict
    }


def _open_for_writing(identities: Iterable[Identity]) -> Iterator[tuple[Identity, Writer]]:
    suspects, own = frozenset(identities), os.getpid()
    for pid in (pid for pid in process_numbers() if pid != own):
        writers = set[Identity]()
        for number in descriptors(pid):
            with suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116 - of each descriptor.
                identity = status.st_dev, status.st_ino
                if identity not in suspects or identity in writers:
                    continue
                flags = open_flags(pid, number)
                if is_for_writing(flags):
                    writers.add(identity)
                    name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
                    yield identity, Writer(name, pid, bool(flags & os.O_APPEND))
