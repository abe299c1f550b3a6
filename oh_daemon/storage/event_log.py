"""One conversation's log on disk: lock, repair at opening, append, sync, read by seq.

Besides events the file holds markers: a header at each opening, `closed` at a clean end. Invariant:
the file ends with a complete line or, only during a write, with part of the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import uuid
from bisect import bisect_left
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import orjson
from msgspec import Struct

from oh_daemon.protocol import errors, plain
from oh_daemon.protocol.log_version import LOG_VERSION
from oh_daemon.storage.blobs import Blobs
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.log_scan import (
    LOG_NAME,
    TORN,
    Scan,
    TakeRecord,
    has_lost,
    parse_line,
    scan_file,
)
from oh_daemon.storage.partial_files import PartialFiles
from oh_daemon.system import private_files
from oh_daemon.system.private_files import open_private, parse_object, read_private, storage_error


class LogTail:
    """A log as it is read, whoever writes it."""

    def __init__(self, folder: Path, fd: int, scan: Scan) -> None:
        self.folder = folder
        self._path = folder / LOG_NAME
        self._fd = fd
        self._seqs = scan.seqs
        self._starts = scan.starts
        self._end: int = scan.end
        self._blobs = Blobs(folder / "blobs")
        self.read_blob, self.blob_size = self._blobs.read, self._blobs.size
        self._writing = threading.Lock()

    def read_on(self) -> tuple[list[bytes], bool]:
        """Return the events that another process has appended since, and whether more may come.

        An incomplete last line is left for the next call. Raises `OSError`.
        """
        with self._writing:
            status = os.fstat(self._fd)
            goes_on = status.st_nlink > 0 and status.st_size >= self._end
            lines: list[bytes] = []
            data = os.pread(self._fd, max(status.st_size - self._end, 0), self._end)
            for line in data.split(b"\n")[:-1]:
                record = parse_line(line)
                if record is not None and "seq" not in record:
                    goes_on &= record.get("kind") != "closed"
                elif record and record["seq"] > (self._seqs[-1] if self._seqs else 0):
                    self._seqs.append(record["seq"])
                    self._starts.append(self._end)
                    lines.append(line)
                self._end += len(line) + 1
        return lines, goes_on

    def read_range(self, first_seq: int, last_seq: int) -> list[bytes]:
        """Return the lines of these events as stored, without newlines. Raises `StorageError`."""
        with self._writing:
            low, high = (bisect_left(self._seqs, seq) for seq in (first_seq, last_seq + 1))
            starts = self._starts[low:high]
        lines: list[bytes] = []
        try:
            with read_private(self._path) as file:
                for start in starts:
                    file.seek(start)
                    lines.append(file.readline().rstrip(b"\n"))
        except OSError as exc:
            raise errors.StorageError(f"cannot read {str(self._path)!r}: {exc.strerror}") from exc
        return lines

    def close(self) -> None:
        with self._writing:
            os.close(self._fd)


class LogFile(LogTail):
    """The `EventLog` of a conversation: its file, which this process has locked."""

    def __init__(
        self, folder: Path, fds: tuple[int, int], scan: Scan, commit: CommitThread
    ) -> None:
        fd, self._lock_fd = fds
        super().__init__(folder, fd, scan)
        self._commit = commit
        self.put_blob, self.put_blob_file = self._blobs.put, self._blobs.put_file
        self.partial = PartialFiles(folder, commit.partial)
        self._syncing = threading.Lock()
        """Held during a sync, so that nobody closes the file under it."""
        self._is_torn = False
        self._unseen_error: errors.StorageError | None = None
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)

    def append(self, lines: bytes) -> None:
        """Write one or several complete lines of events in one piece; their seqs follow the last.

        Raises `StorageError`; then none of them is in the log, and appending may be tried again.
        """
        with self._writing:
            error, self._unseen_error = self._unseen_error, None
            if error is not None:
                raise error
            start = self._end
            self.write(lines)
            for line in lines.split(b"\n")[:-1]:
                self._seqs.append(self._seqs[-1] + 1 if self._seqs else 1)
                self._starts.append(start)
                start += len(line) + 1
        self._commit.schedule(self.commit)

    def write(self, data: bytes) -> None:
        """Put bytes at the end of the file, all or nothing, for `append` and `open_log`."""
        try:
            if self._is_torn:
                self._cut_log()
            self._require_unchanged()
            # The kernel takes everything in one write, or only a part when it runs out of space;
            # writing the rest then raises the reason.
            private_files.write_all(self._fd, data)
        except OSError as exc:
            self._is_torn = True
            with suppress(OSError):
                self._cut_log()
            raise storage_error(self._path, exc) from exc
        self._end += len(data)

    def _cut_log(self) -> None:
        os.ftruncate(self._fd, self._end)
        self._is_torn = False

    def _require_unchanged(self) -> None:
        """Raise `StorageError` when the log's path no longer leads to exactly what was written."""
        path_status = None
        with suppress(OSError):
            status = self._path.stat(follow_symlinks=False)
            path_status = (status.st_dev, status.st_ino, status.st_size)
        if path_status != (*self._identity, self._end):
            what = "changed by another program" if path_status else "moved or deleted"
            hint = "put it back and resume, or start a new conversation"
            raise errors.StorageError(f"the log {str(self._path)!r} was {what}; {hint}", hint=hint)

    def sync(self) -> None:
        """Return when everything appended so far is durable. Raises `StorageError`."""
        error = self._commit.request(self.commit).result()
        if error is not None:
            raise error

    def after_sync(self, callback: Callable[[errors.StorageError | None], None]) -> None:
        """Call back, on the commit thread, once everything appended so far is durable."""
        self._commit.request(self.commit, callback)

    def commit(self, is_awaited: bool) -> errors.StorageError | None:
        """Make everything written so far durable. For the commit thread."""
        error = None
        try:
            with self._syncing:
                if self._fd >= 0:
                    with self._writing:
                        self._require_unchanged()
                    # An item that ends during the sync is not among them.
                    items = self.partial.ended_ids()
                    os.fdatasync(self._fd)
                    self.partial.drop(items)
        except OSError as exc:
            error = storage_error(self._path, exc)
        except errors.StorageError as exc:
            error = exc
        with self._writing:
            # The kernel reports lost bytes only once and succeeds from then on, so the error is
            # kept until an append or an awaited sync has reported it.
            error = error or self._unseen_error
            self._unseen_error = None if is_awaited else error
        return error

    def close(self) -> None:
        """Make everything durable, mark the clean end and free the lock; a later append raises."""
        with self._syncing, self._writing:
            if self._fd < 0:
                return
            # A log without this mark is opened as after a crash, which loses nothing.
            with suppress(OSError, errors.StorageError):
                self.write(_line(kind="closed"))
                os.fdatasync(self._fd)
                self.partial.drop(self.partial.ended_ids())
                os.ftruncate(self._lock_fd, 0)
            os.close(self._lock_fd)
            os.close(self._fd)
            self._fd = -1


class OpenedLog(Struct, frozen=True):
    """A log ready to be appended to, and what it holds."""

    log: LogFile
    epoch: str
    """Differs from the one before when whole lines may have been lost."""
    repairs: tuple[str, ...]
    """What was found wrong, as sentences, except what an earlier opening has reported."""
    is_damaged: bool
    """Whether anything was found wrong, by this opening or an earlier one."""


def open_log(
    folder: Path,
    commit: CommitThread,
    on_record: TakeRecord = lambda _record: None,
    *,
    client: str = "",
    create: bool = False,
) -> OpenedLog:
    """Lock, read and repair the log in `folder`. Blocks for a quarter of a second per 42 MB.

    `take` gets the events in order, each seq once; when it raises, the log is left unchanged.

    Raises `ConversationNotFoundError`, `ConversationLockedError` (then `read_log` still works),
    `ReadOnlyError` (planted files, no permission, no locks, a later version) and `StorageError`.
    """
    if not (create or (folder / LOG_NAME).exists()):
        raise errors.ConversationNotFoundError(folder.name)
    try:
        private_files.private_folder(folder)
        private_files.private_folder(folder / "blobs")
        with ExitStack() as on_failure:
            lock_fd = open_private(folder / "lock", os.O_RDWR | os.O_CREAT)
            on_failure.callback(os.close, lock_fd)
            _take_lock(folder, lock_fd, client)
            create_flag = os.O_CREAT if create else 0
            fd = open_private(folder / LOG_NAME, os.O_RDWR | os.O_APPEND | create_flag)
            on_failure.callback(os.close, fd)
            log = _open_locked(folder, (fd, lock_fd), commit, on_record)
            on_failure.pop_all()
            return log
    except OSError as exc:
        raise private_files.disk_error(folder, exc) from exc


def _take_lock(folder: Path, fd: int, client: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        owner = parse_object(os.pread(fd, 4096, 0))
        raise errors.ConversationLockedError(folder.name, owner) from exc
    except OSError as exc:
        raise errors.ReadOnlyError(
            f"the file system of {str(folder)!r} has no file locks ({exc.strerror}), so two "
            "daemons could write the same log; open a folder on a local disk"
        ) from exc
    os.ftruncate(fd, 0)
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    os.pwrite(fd, _line(pid=os.getpid(), startedAt=started_at, client=client), 0)


def follow_log(folder: Path, on_record: TakeRecord) -> tuple[LogTail, str]:
    """Read a log that another process writes; return what reads on in it, and its epoch.

    Raises `ReadOnlyError` and `StorageError`.
    """
    try:
        with ExitStack() as on_failure:
            fd = open_private(folder / LOG_NAME, os.O_RDONLY)
            on_failure.callback(os.close, fd)
            with os.fdopen(fd, "rb", 1 << 20, closefd=False) as file:
                scan = scan_file(file, on_record)
            tail = LogTail(folder, fd, scan)
            on_failure.pop_all()
    except OSError as exc:
        raise private_files.disk_error(folder, exc) from exc
    return tail, scan.header.get("epoch", "")


def _open_locked(
    folder: Path, fds: tuple[int, int], commit: CommitThread, on_record: TakeRecord
) -> OpenedLog:
    fd = fds[0]
    newer = errors.ReadOnlyError(
        f"a later version has written conversation {folder.name!r}; update oh-daemon to go on with "
        "it, or only read it"
    )

    def take_known(record: plain.Record) -> None:
        # Whoever takes the events may fail on those of a later version.
        if record["v"] > LOG_VERSION:
            raise newer
        on_record(record)

    with os.fdopen(fd, "rb", 1 << 20, closefd=False) as file:
        scan = scan_file(file, take_known)
    if scan.header.get("v", 0) > LOG_VERSION:
        raise newer
    repairs = [] if scan.header.get("damage") == scan.damage else scan.repairs
    if os.fstat(fd).st_size > scan.end:
        repairs = [*repairs, _cut_torn_line(folder, fd, scan.end)]
    is_damaged = has_lost(folder, scan)
    for left_by_a_killed_process in folder.rglob(".*.tmp"):
        left_by_a_killed_process.unlink(missing_ok=True)
    log = LogFile(folder, fds, scan, commit)
    boot = _boot_id()
    epoch = _next_epoch(scan, boot)
    header = _line(kind="header", epoch=epoch, boot=boot, damage=scan.damage)
    log.write(b"\n" + header if scan.lacks_newline else header)
    os.fdatasync(fd)
    private_files.sync_path(folder)
    private_files.sync_path(folder.parent)
    return OpenedLog(log, epoch, tuple(repairs), is_damaged)


def _cut_torn_line(folder: Path, fd: int, end: int) -> str:
    """Move the bytes after the last complete line into a file, which is durable before the cut."""
    # A file of this name is from an unfinished attempt: a finished opening writes beyond `end`.
    name = f"{TORN}{end}"
    torn_fd = open_private(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(fd, "rb", closefd=False) as log, os.fdopen(torn_fd, "wb") as torn_file:
        log.seek(end)
        shutil.copyfileobj(log, torn_file, 1 << 20)
        torn_file.flush()
        os.fsync(torn_fd)
    os.ftruncate(fd, end)
    return f"the last line was not finished; it was moved to {name}"


def _next_epoch(scan: Scan, boot: str) -> str:
    # The kernel keeps what a killed process wrote, but a machine that crashes loses what was not
    # synced, and then the same seqs are used again for other events.
    old = scan.header
    is_complete = (scan.is_closed or old.get("boot") == boot) and old.get("damage") == scan.damage
    return (is_complete and old.get("epoch")) or uuid.uuid4().hex


def _boot_id() -> str:
    """Return an id that is the same until a reboot; where there is none, each call makes one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return uuid.uuid4().hex


def _line(**fields: object) -> bytes:
    return orjson.dumps({"v": LOG_VERSION, **fields}) + b"\n"
