"""Writes files into a view, through its merged mount, so that watchers in it hear of them.

What runs in a view may have put anything in the way: no link is followed, no other mount entered,
and only regular files are written; see openat2(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_OPENAT2 = 437  # On every architecture.
_BENEATH_NO_LINKS = 0x08 | 0x04 | 0x02
_BENEATH_NO_LINKS_NO_XDEV = _BENEATH_NO_LINKS | 0x01
_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class Inside:
    """One folder as the view has it. Raises `OSError`."""

    def __init__(self, pid: int, folder: Path) -> None:
        """`pid` is that of a process inside."""
        self._pid = pid
        self._folder = folder

    def write(self, name: Path, data: bytes, mode: int = 0o666) -> None:
        """Give a file this content; `name` is relative to the folder."""
        root = open_in(self._pid, self._folder)
        try:
            for folder in reversed(name.parents[:-1]):
                make_folder(root, folder)
            descriptor = open_beneath(root, name, _WRITE, mode)
        finally:
            os.close(root)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - opened above, without following.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            file.write(data)

    def has(self, name: Path) -> bool:
        """Return whether something stands there."""
        root = open_in(self._pid, self._folder)
        try:
            os.close(open_beneath(root, name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError:
            return False
        finally:
            os.close(root)
        return True


def make_folder(root: int, name: Path) -> None:
    """Make a folder below an open one, if it is not there."""
    parent = open_beneath(root, name.parent, _FOLDER)
    try:
        with suppress(FileExistsError):
            os.mkdir(name.name, dir_fd=parent)
    finally:
        os.close(parent)


def open_in(pid: int, folder: Path) -> int:
    """Open a folder as a process sees it, which may have put a link in the way.

    Raises `OSError`.
    """
    top = os.open(f"/proc/{pid}/root", _FOLDER)
    try:
        return open_beneath(top, str(folder)[1:] or ".", _READ_FOLDER, how=_BENEATH_NO_LINKS)
    finally:
        os.close(top)


def open_beneath(
    root: int,
    name: Path | str,
    flags: int,
    mode: int = 0,
    *,
    how: int = _BENEATH_NO_LINKS_NO_XDEV,
) -> int:
    """Open what lies below a folder without following a link. Raises `OSError`."""
    how_to = _OpenHow(flags, mode, how)
    raw = os.fsencode(name)
    found = _libc.syscall(_OPENAT2, root, raw, ctypes.byref(how_to), ctypes.sizeof(how_to))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(name))
    return int(found)
