"""Waits for another process to change a file, without polling: by Linux's inotify and pidfd."""

from __future__ import annotations

import ctypes
import os
import select
from contextlib import suppress
from pathlib import Path

_MODIFY, _ATTRIB, _DELETE_SELF, _MOVE_SELF = 0x2, 0x4, 0x400, 0x800
_EVENT_BYTES = 4096


class Watch:
    """Watches one file and, where it can be seen, the process that writes it."""

    def __init__(self, path: Path, pid: int | None) -> None:
        """Start watching. Raises `OSError` where the system does not report changes."""
        self._fds: list[int] = []
        try:
            self._changes = self._keep_descriptor(_inotify(path))
            self._stop = self._keep_descriptor(os.eventfd(0, os.EFD_CLOEXEC))
            if pid is not None:
                # The pid may mean nothing here, for instance when the writer is in a container.
                with suppress(OSError):
                    self._keep_descriptor(os.pidfd_open(pid))
        except OSError:
            self.close()
            raise
        except AttributeError as exc:
            self.close()
            raise OSError("only Linux tells of changes in a way that is used here") from exc
        self._poll = select.poll()
        for fd in self._fds:
            self._poll.register(fd, select.POLLIN)

    def _keep_descriptor(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def wait(self) -> bool:
        """Block until the file changes; returns False when its writer ends or `stop` is called."""
        ready = {fd for fd, _ in self._poll.poll()}
        if ready != {self._changes}:
            return False
        os.read(self._changes, _EVENT_BYTES)
        return True

    def stop(self) -> None:
        """Make `wait` return, now and from then on. Any thread may call it, before `close`."""
        os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        """Free the descriptors; nobody may be waiting any more."""
        for fd in self._fds:
            os.close(fd)


def _inotify(path: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.inotify_init1(os.O_CLOEXEC)
    event_mask = _MODIFY | _ATTRIB | _DELETE_SELF | _MOVE_SELF
    if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), event_mask) >= 0:
        return fd
    number = ctypes.get_errno()
    if fd >= 0:
        os.close(fd)
    raise OSError(number, os.strerror(number))
