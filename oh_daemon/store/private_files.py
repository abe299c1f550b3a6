"""Files and folders that only this user may access: how the store makes, opens and replaces them.

Refuses what someone else could have planted: links, files of other owners, anything but a plain
file. Modes are 0700 and 0600 whatever the umask says.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

import orjson

from oh_daemon.contract.errors import DaemonError, ReadOnlyError, StorageError

Json = dict[str, Any]
_HINTS = {
    errno.ENOSPC: "the disk is full; free some space, then resume",
    errno.EDQUOT: "your disk quota is used up; free some space, then resume",
    errno.EFBIG: "the limit for file sizes is reached; raise `ulimit -f` and restart the editor",
    errno.EIO: "the disk reported an error; check it before you resume",
    errno.EMFILE: "too many files are open; close some conversations, then resume",
    errno.ENFILE: "too many files are open on this machine; close some programs, then resume",
}
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


def disk_error(path: Path, exc: OSError) -> DaemonError:
    """Return the error for a failure to open or create `path`, with a way out."""
    if exc.errno not in _NOT_WRITABLE:
        return storage_error(path, exc)
    hint = "make the folder writable for you, or open a folder that is"
    return ReadOnlyError(_text(path, exc, hint), hint=hint)


def storage_error(path: Path, exc: OSError) -> StorageError:
    """Return the error for a failure with a log that is already in use, with a way out."""
    hint = _HINTS.get(exc.errno or 0, "make the folder writable again, then resume")
    return StorageError(_text(path, exc, hint), hint=hint)


def _text(path: Path, exc: OSError, hint: str) -> str:
    return f"cannot write {str(path)!r}: {(exc.strerror or str(exc)).lower()}; {hint}"


def private_folder(path: Path) -> None:
    """Create `path` if missing and make it private. Raises `ReadOnlyError`, `OSError`."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    os.close(open_private(path, os.O_RDONLY | os.O_DIRECTORY))


def read_private(path: Path) -> BufferedReader:
    """Open a plain file for reading. Raises `ReadOnlyError`, `OSError`."""
    return os.fdopen(open_private(path, os.O_RDONLY), "rb")


def read_end(path: Path, max_bytes: int) -> bytes:
    """Return the last bytes of a plain file. Raises `ReadOnlyError`, `OSError`."""
    fd = open_private(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        # `pread` allocates the whole length before it reads, so ask for no more than there is.
        length = min(size, max_bytes)
        return os.pread(fd, length, size - length)
    finally:
        os.close(fd)


def parse_object(data: bytes) -> Json:
    """Parse the JSON object in a file of ours; empty when it holds anything else."""
    with suppress(ValueError):
        loaded = orjson.loads(data)
        if isinstance(loaded, dict):
            return loaded  # pyright: ignore[reportUnknownVariableType] - our own file, our shape.
    return {}


def open_private(path: Path, flags: int) -> int:
    """Open a plain file or a folder; returns the descriptor.

    A folder, or a file to write, must belong to this user. Raises `ReadOnlyError` and `OSError`.
    """
    try:
        # Without O_NONBLOCK a named pipe at this path would block for ever.
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR}:
            raise _refusal(path, "is a link or of the wrong kind") from exc
        raise
    try:
        _require_private(path, fd, flags)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_private(path: Path, fd: int, flags: int) -> None:
    status = os.fstat(fd)
    is_folder = bool(flags & os.O_DIRECTORY)
    if not (is_folder or stat.S_ISREG(status.st_mode)):
        raise _refusal(path, "is not a plain file")
    if not is_folder and flags & os.O_ACCMODE == os.O_RDONLY:
        return
    if status.st_uid != os.geteuid():
        raise _refusal(path, "belongs to another user")
    if not is_folder and status.st_nlink > 1:
        raise _refusal(path, "has a second name (a hard link)")
    os.fchmod(fd, 0o700 if is_folder else 0o600)


def _refusal(path: Path, reason: str) -> ReadOnlyError:
    hint = "move it away and try again"
    return ReadOnlyError(f"{str(path)!r} {reason}, so nothing is written to it; {hint}", hint=hint)


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` so that readers see either the old bytes or the new, never a mixture."""
    temp = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        write_new(temp, data)
        temp.rename(path)
    except OSError:
        temp.unlink(missing_ok=True)
        raise


def write_new(path: Path, data: bytes) -> None:
    """Write a new file at `path`. Raises `OSError`, and may then leave part of it behind."""
    fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, even when the kernel takes them in pieces."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_path(path: Path) -> None:
    """Make the bytes of a file, or the names in a folder, durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
