"""Facts about processes, waited for with a deadline."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

DEADLINE_S = 20.0


def tagged(run_id: str) -> list[str]:
    """The command lines of the living processes that a spawner started."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        try:
            if f"OH_DAEMON_RUN={run_id}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def seconds_until_gone(pids: Iterable[int], since: float) -> float:
    """Wait until none of the processes lives; fails at the deadline."""
    with ExitStack() as stack:
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            stack.callback(os.close, fd)
            left_s = max(0.0, since + DEADLINE_S - time.monotonic())
            assert select.select([fd], [], [], left_s)[0], f"process {pid} still lives"
    return time.monotonic() - since


def n_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
