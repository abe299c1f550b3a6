"""Files and folders that only this user may access: how the store makes, opens and replaces them.

Refuses what someone else could have planted: links, files of other owners, anything but a plain
file. Modes are 0700 and 0600 whatever the umask says. Also files that are read again only once they
have changed, and folders with a file for each value.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson

from oh_daemon.protocol.errors import DaemonError, ReadOnlyError, StorageError

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


@contextlib.contextmanager
def short_path(folder: Path) -> Generator[Path]:
    """Yield a short path to the folder: that of a socket may have no more than 107 bytes."""
    descriptor_folder = Path("/proc/self/fd")
    if not descriptor_folder.exists():
        yield folder
        return
    descriptor = open_private(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor_folder / str(descriptor)
    finally:
        os.close(descriptor)


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
        value = orjson.loads(data)
        if isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType] - our own file, our shape.
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


T = TypeVar("T")

_SECOND_NS = 1_000_000_000
_TICK_NS = 50_000_000
_COARSE_NS = 2 * _SECOND_NS


class CachedFile(Generic[T]):
    """Thread-safe. While the value stays equal, each use returns the same object."""

    def __init__(self, path: Path, read: Callable[[Path], T]) -> None:
        """`read` makes the value; what it raises is raised by the use."""
        self._path, self._name = path, str(path)
        self._read = read
        self._entry: tuple[tuple[int, ...] | None, T] | None = None

    def value(self) -> T:
        """Return what `read` makes of the file as it is now."""
        stamp, entry = _stamp(self._name), self._entry
        if entry is not None and entry[0] == stamp:
            return entry[1]
        is_settled = _is_settled(stamp)
        value = self._read(self._path)
        if entry is not None and entry[1] == value:
            value = entry[1]
        self._entry = (stamp if is_settled else None, value)
        return value


def _stamp(path: str) -> tuple[int, ...]:
    """Return what differs once the file has changed; of one that is not there, the error."""
    try:
        status = os.stat(path)  # noqa: PTH116 - runs many times in each step, as text.
    except OSError as exc:
        return (exc.errno or 0,)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *times)


def _is_settled(stamp: tuple[int, ...]) -> bool:
    """Return whether each later change shows in the stamp.

    Times move in ticks of the kernel (10 ms at most, see ktime_get_coarse_real_ts64), in some file
    systems in seconds, so what changed a moment ago may change again and look the same (the "racy
    git problem" of git's documentation).
    """
    *_, change_ns = stamp
    is_coarse = change_ns % _SECOND_NS == 0
    return change_ns + (_COARSE_NS if is_coarse else _TICK_NS) < time.time_ns()


class PrivateValues:
    """The files in one folder. Each is replaced as a whole, so several daemons may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, default: Json) -> Json:
        """Return the saved value; `default` when there is none or it cannot be read."""
        # `read_private` refuses a link or a pipe that someone planted there.
        with contextlib.suppress(OSError, DaemonError), read_private(self._file(name)) as file:
            return parse_object(file.read()) or default
        return default

    def all(self) -> Iterator[Json]:
        """Yield the saved values that can be read, in no order."""
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, DaemonError), read_private(path) as file:
                yield parse_object(file.read()) or {}

    def __setitem__(self, name: str, value: Json) -> None:
        """Save a value. Raises `ReadOnlyError` or `StorageError`."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            private_folder(self._folder)
            replace_file(self._file(name), orjson.dumps(value))
        except OSError as exc:
            raise disk_error(self._folder, exc) from exc

    def forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"
