"""Looks for processes, and waits with a deadline until they have ended."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import psutil

from oh_daemon.system import reaper

DEADLINE_S = 90.0


def tagged_pids(run_id: str) -> list[int]:
    """Return the living processes that a spawner started."""
    inodes: list[int] = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"OH_DAEMON_RUN={run_id}".encode() in environ.read_bytes():
                inodes.append(int(environ.parent.name))
        except OSError:
            continue
    return inodes


def wait_until_gone(pids: Iterable[int]) -> None:
    """Wait until all of the processes have ended, killed or not; fail at the deadline."""
    with ExitStack() as stack:
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            stack.callback(os.close, fd)
            assert select.select([fd], [], [], DEADLINE_S)[0], f"process {pid} still lives"


def wait_for_idle_sandboxes(daemon: psutil.Process) -> list[psutil.Process]:
    """Wait until the daemon's sandboxes need no helper; return all processes below it then."""
    below, n_files = daemon.children(recursive=True), daemon.num_fds()
    forks = [each for each in below if each.cmdline()[-3:-2] == [reaper.__file__]]
    helpers = [each.pid for each in forks if each.ppid() != daemon.pid]
    wait_until_gone(helpers)
    deadline = time.monotonic() + DEADLINE_S
    while daemon.num_fds() > n_files - len(helpers):  # The daemon hears a moment later of the end.
        assert time.monotonic() < deadline, daemon.num_fds()
        threading.Event().wait(0.02)
    return daemon.children(recursive=True)


def n_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
