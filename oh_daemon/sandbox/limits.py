"""What the programs in one view may take of the machine: processes, and space on a disk."""

from __future__ import annotations

import os
import re
import resource
from contextlib import suppress
from pathlib import Path

from oh_daemon.sandbox.mounted import is_in_memory
from oh_daemon.workspace import reaper

MAX_PROCESSES = 4096
_NEVER_USED_AGAIN = 300
"""So many numbers of processes; RESERVED_PIDS of kernel/pid.c."""
_LEAST, _MOST = 1 << 30, 10 << 30
_SMALLEST_FILE = 16 << 20


def limit(root: int, place: Path, reserve: int) -> None:
    """Limit what runs in a view with its layers in `place`, and all that it will start.

    Processes are counted for each user namespace since Linux 5.14; before, with the user's others.
    Of root's, the kernel lets any number be, since it asks who they are outside (kernel/fork.c);
    for these `n_numbers` counts.
    """
    largest = max(_free(place) - reserve, _SMALLEST_FILE)
    for pid in {root} | reaper.descendants({root}, reaper.processes()):
        with suppress(ProcessLookupError):
            _lower(pid, resource.RLIMIT_NPROC, MAX_PROCESSES)
            _lower(pid, resource.RLIMIT_FSIZE, largest)


def _lower(pid: int, what: int, limit: int) -> None:
    """Set a limit, unless there is a lower one, which only root could raise."""
    _, hard = resource.prlimit(pid, what)
    if hard == resource.RLIM_INFINITY or hard > limit:
        resource.prlimit(pid, what, (limit, limit))


def n_numbers() -> int:
    """Return where the numbers of processes in a view end; 0 where the kernel has no such limit."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    has_limit = found is not None and (int(found[1]), int(found[2])) >= (6, 14)
    return MAX_PROCESSES + _NEVER_USED_AGAIN if has_limit else 0


def reserve_in(place: Path) -> int:
    """Return how many bytes the layers in a folder must leave free there."""
    found = os.statvfs(place)
    size = found.f_blocks * found.f_frsize
    wanted = size // 2 if is_in_memory(place) else max(_LEAST, min(size // 20, _MOST))
    return min(wanted, _free(place) // 2)


def too_full(reserve: int) -> str:
    """Return what the model is told of a view that was ended for that."""
    return (
        "The sandbox was ended, with all that ran in it: what was written there left less than"
        f" {reserve >> 20:,} MiB of the disk to other programs. It is still there. Delete with rm"
        " what is not needed, or ask the user to make room.\n"
    )


def _free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize
