"""Takes `index.lock` of a repository so that a later process can tell whose it is after a kill.

The lock is a second name (hard link) of our own file `oh-daemon.lock`, on which its owner holds an
flock(2). The kernel releases that when the process ends, however it ends: a lock with that inode
and without an owner is left over, also after a restart of the machine.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

LOCK, _OWN = "index.lock", "oh-daemon.lock"
_UNSUPPORTED = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOLCK)
_MIN_AGE_S = 600.0
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def take(git_dir: Path) -> int:
    """Make `index.lock` and return it, open for writing; remove one that a killed daemon left.

    Raises `FileExistsError` while another program has the lock, and `OSError`.
    """
    drop_leftover(git_dir)
    descriptor = os.open(git_dir / _OWN, _NEW, 0o666)
    folder = os.open(git_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # By its descriptor: another daemon can have taken the name for a leftover and removed it.
        os.link(f"/proc/self/fd/{descriptor}", LOCK, dst_dir_fd=folder)
    except OSError as exc:
        release(git_dir, descriptor)
        if exc.errno not in _UNSUPPORTED:
            raise
        # A file system without hard links or locks: a leftover cannot be recognized there.
        return os.open(git_dir / LOCK, _NEW, 0o666)
    finally:
        os.close(folder)
    return descriptor


def release(git_dir: Path, descriptor: int) -> None:
    """Remove our names of a lock from `take`, which may have become the index, and close it."""
    for name in (LOCK, _OWN):
        if _is_same(descriptor, git_dir / name):
            (git_dir / name).unlink(missing_ok=True)
    os.close(descriptor)


def drop_leftover(git_dir: Path) -> bool:
    """Remove a lock that a killed daemon left; return whether there was one. Raises `OSError`."""
    own = git_dir / _OWN
    try:
        descriptor = os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False  # Its owner lives.
    was_locked = _is_same(descriptor, git_dir / LOCK)
    release(git_dir, descriptor)
    return was_locked


def remove_old(git_dir: Path, now_s: float, programs: Collection[str]) -> str | None:
    """Remove a lock without a mark, such as one of an earlier version; return a report on it.

    It is removed only after 10 minutes, and if none of the running programs (names as in
    /proc/PID/comm) is a git. Returns None without such a lock. Raises `OSError`.
    """
    lock = git_dir / LOCK
    try:
        age_s = now_s - lock.lstat().st_mtime
    except FileNotFoundError:
        return None
    if age_s < _MIN_AGE_S:
        return None
    age = f"{lock} is {age_s / 60:.0f} minutes old and keeps git from changing the index"
    if any(program.startswith("git") for program in programs):
        return f"{age}; if no git works there, remove it"
    lock.unlink()
    return f"{age}; no git is running, so it was removed"


def running_programs() -> set[str]:
    """Return the names of all running programs, as /proc/PID/comm has them."""
    names: set[str] = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            names.add(comm.read_text(errors="replace").strip())
    return names


def _is_same(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), place.lstat())
    except OSError:
        return False
