"""Folders that one process uses at a time: held by a lock, which ends with the process."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

LOCK = "lock"


def locked(place: Path) -> int:
    """Return a descriptor that holds the lock of a folder. Raises `OSError` if another has it."""
    with ExitStack() as on_failure:
        descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        on_failure.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        on_failure.pop_all()
    return descriptor
