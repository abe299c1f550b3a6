"""The folder of a sandbox: who uses it, how it is removed, and its limits of disk and processes.

Two locks hold it, which end with their processes: on the folder the daemon's, from before anything
lies in it, and on a file that of what runs. A tree in it may have any depth, and folders any mode.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import resource
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from oh_daemon.features.sandbox.layer import (
    chmod,
    entries,
    is_folder,
    open_folder,
    open_named,
    within,
)
from oh_daemon.system import reaper
from oh_daemon.system.proc import is_in_memory

LOCK = "lock"
KEPT = "kept-"
"""How the names of places begin whose layers outlive the daemon."""
CACHES = "caches"
"""The name, beside those of sandboxes, of the folder with the layers of caches, which last."""
MAX_PROCESSES = 4096
_NEVER_USED_AGAIN = 300
"""So many numbers of processes; RESERVED_PIDS of kernel/pid.c."""
_LEAST, _MOST = 1 << 30, 10 << 30
_SMALLEST_FILE = 16 << 20


def own_folder(place: Path) -> int:
    """Make a folder, and return a descriptor that keeps `sweep` from it until it is closed."""
    while True:
        make_folder_in(place)
        with ExitStack() as on_failure, suppress(FileNotFoundError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            on_failure.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # It may have been swept away before it was held.
            if os.path.samestat(os.fstat(descriptor), place.stat()):
                on_failure.pop_all()
                return descriptor


def lock_folder(place: Path) -> int:
    """Return a descriptor that holds the lock of a folder. Raises `OSError` if another has it."""
    with ExitStack() as on_failure:
        descriptor = os.open(place / LOCK, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        on_failure.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        on_failure.pop_all()
    return descriptor


def sweep(places: Path) -> None:
    """Remove the sandboxes of daemons that were killed, except those that outlive them."""
    with suppress(FileNotFoundError):
        for place in places.iterdir():
            if place.name == CACHES or place.name.startswith(KEPT):
                continue
            with suppress(OSError), open_folder(place) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.close(lock_folder(place))
                remove(place)


def remove(place: Path) -> None:
    """Remove a sandbox's folder, with what commands left in it."""
    trash = place.with_name(f"{place.name}-gone")
    with suppress(OSError), open_folder(place.parent) as parent, ExitStack() as locks:
        locks.callback(os.close, own_folder(trash))
        discard(parent, place.name, trash)


def holder(place: Path) -> tuple[int, Sequence[str]] | None:
    """Return the number of process 1 of the sandbox that runs at a place, if one does.

    The second part is the folders where commands in it can write.
    """
    with suppress(OSError, ValueError):
        try:
            os.close(lock_folder(place))
        except BlockingIOError:
            number, *writable = (place / LOCK).read_text(errors="surrogateescape").split("\0")
            return int(number), writable
    return None


def note_holder(place: Path, root: int, writable: Sequence[str]) -> None:
    """Write down what `holder` returns."""
    (place / LOCK).write_text("\0".join((str(root), *writable)), errors="surrogateescape")


def make_folder_in(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def private_folder(folder: Path) -> Path:
    """Make a folder that nobody else can look into. Raises `OSError` if it is another's."""
    make_folder_in(folder)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError("others can reach it")
    return folder


def mask_folder() -> Path:
    """Return this process's folder for layers that hide secrets. Raises `OSError`.

    They cannot lie below the home folder, since no lower layer may lie in another one; see
    `ovl_check_layer` of fs/overlayfs/super.c. The lock on the folder, which the process holds to
    its end, also keeps systemd-tmpfiles(8) from what is in it.
    """
    return _mask_folder_of(os.getpid())


@cache
def _mask_folder_of(_pid: int) -> Path:
    base = private_folder(Path("/var/tmp", f"oh-daemon-{os.getuid()}-masks"))  # noqa: S108 - checked.
    sweep(base)
    folder = base / uuid4().hex
    own_folder(folder)
    atexit.register(remove, folder)
    return folder


def discard(parent: int, name: str, trash: Path) -> None:
    """Remove a tree of any depth: each folder is moved up before it is emptied."""
    trash.mkdir(mode=0o700, exist_ok=True)
    with open_folder(trash) as heap:
        stack, n_moved = ["0"], 0
        _move(parent, name, heap, "0")
        while stack:
            folder_name = stack.pop()
            with within(heap, folder_name) as folder:
                for child, entry in entries(folder).items():
                    if is_folder(entry):
                        n_moved += 1
                        _move(folder, child, heap, str(n_moved))
                        stack.append(str(n_moved))
                    else:
                        os.unlink(child, dir_fd=folder)
            os.rmdir(folder_name, dir_fd=heap)
    trash.rmdir()


def _move(folder: int, name: str, heap: int, new: str) -> None:
    with open_named(folder, name) as place:
        chmod(place, 0o700)
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=heap)


def limit(root: int, place: Path, reserve: int) -> None:
    """Limit the processes of a sandbox with its layers in `place`, and all that they start.

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
    """Return the highest process id in a sandbox; 0 if the kernel has no such limit."""
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    has_limit = match is not None and (int(match[1]), int(match[2])) >= (6, 14)
    return MAX_PROCESSES + _NEVER_USED_AGAIN if has_limit else 0


def reserve_in(place: Path) -> int:
    """Return how many bytes the layers in a folder must leave free there."""
    stats = os.statvfs(place)
    size = stats.f_blocks * stats.f_frsize
    reserve = size // 2 if is_in_memory(place) else max(_LEAST, min(size // 20, _MOST))
    return min(reserve, _free(place) // 2)


def too_full(reserve: int) -> str:
    """Return the note for the model on a sandbox that was ended for that."""
    return (
        "The sandbox was ended, with all that ran in it: what was written there left less than"
        f" {reserve >> 20:,} MiB of the disk to other programs. It is still there. Delete with rm"
        " what is not needed, or let the user make room.\n"
    )


def _free(place: Path) -> int:
    stats = os.statvfs(place)
    return stats.f_bavail * stats.f_frsize
