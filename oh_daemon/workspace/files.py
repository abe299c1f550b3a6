"""Text files, byte for byte: reads only what is surely text, and writes so that a crash loses none.

A crash leaves the old text or the new; what is overwritten in place is kept elsewhere before that.
Text at the end is appended in place, so programs that follow or write the file still have it; a
record next to the file lets the next sweep complete what a crash cut short.
Files are opened through `Folders.holding`, so no link is followed. Who may write what, and which
text is the newest, is decided elsewhere. Invariant: on any error the file is as it was.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.editor_ports import Editor
from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.protocol.items import FileForm
from oh_daemon.system.writers import is_written
from oh_daemon.workspace.databases import is_journal_name
from oh_daemon.workspace.encodings import BOMS, encode_text, encoding_named, find_encodings
from oh_daemon.workspace.paths import Folders, quoted

MAX_TEXT_BYTES = 16 << 20

_TEMP_NAME, _RECORD_NAME = ".oh-{}.tmp", ".oh-append-{}.tmp"
# A FIFO without a writer would block the open, and a link would lead elsewhere.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GUESS = "Read as {}, a guess by its letters; if they are wrong, view it with its `encoding`."
PERMISSIONS = 0o777
"""The bits of a mode that the agent can set: setuid, setgid and sticky bits are not."""
_NO_LINKS_HERE = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def sha256_of(data: bytes | str) -> str:
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.sha256(raw).hexdigest()


def hash_file(path: Path) -> str | None:
    """Return the SHA-256 of a regular file's content, or None for anything else; follows links.

    Also works outside the open folders, since no content is shown to anybody.
    """
    try:
        with open(os.open(path, _READ & ~os.O_NOFOLLOW), "rb") as file:  # noqa: PTH123 - a pipe must not block.
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return hashlib.file_digest(file, "sha256").hexdigest() if is_regular else None
    except OSError:
        return None


def read_plain(path: Path, max_bytes: int) -> bytes:
    """Read a small file that somebody else named; follows links. Raises `OSError`.

    A repository can name a device that never ends, or a pipe that nobody writes.
    """
    descriptor = os.open(path, _READ & ~os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a pipe must not block.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes")
    return data


class FileText(Struct, frozen=True):
    """A text file: `text` has no byte order mark, and the line ends of the file."""

    text: str
    sha256: str
    """The hash of the raw bytes."""
    encoding: str = "utf-8"
    bom: bytes = b""
    mode: int | None = None
    likely_encodings: tuple[str, ...] = ()
    """The encodings that fit its letters, where these are all that suggests one."""
    is_set_by_editor: bool = False
    """Whether the encoding is a setting of the user's editor."""

    def encode(self, text: str) -> bytes:
        """Encode another text in the form of this file.

        Raises `EditRejectedError` when that would also change bytes that the text leaves alone, or
        the likely encodings differ in the bytes.
        """
        is_unicode = self.bom or self.encoding == "utf-8"
        if not is_unicode and sha256_of(encode_text(self.text, self.form)) != self.sha256:
            raise EditRejectedError(
                f"the file is in {self.encoding}, in which some of its characters would be written"
                " with other bytes; change it with a command"
            )
        raw = encode_text(text, self.form)
        for other in self.likely_encodings[1:]:
            if not _has_bytes(raw, text, other):
                raise EditRejectedError(
                    f"the file may be in {self.encoding} or {other}, which have different bytes for"
                    " the new text; name its `encoding`, or write something else"
                )
        return raw

    @property
    def is_guess(self) -> bool:
        """Whether only its content says in which encoding it is."""
        return bool(self.likely_encodings)

    @property
    def note(self) -> str | None:
        """Return what its reader must know about the encoding."""
        if self.is_set_by_editor:
            return f"Read as {self.encoding}, which the user's editor has as its setting."
        return _GUESS.format(self.encoding) if self.is_guess else None

    @property
    def is_plain(self) -> bool:
        """Whether its bytes are its text with LF line ends in UTF-8."""
        return self.encoding == "utf-8" and not self.bom and "\r" not in self.text

    @property
    def form(self) -> FileForm:
        return FileForm(encoding=self.encoding, bom=bool(self.bom), mode=self.mode)

    @property
    def has_mixed_line_ends(self) -> bool:
        """Whether an editor would save other line ends than these: it also has lone CRs, say."""
        n_pairs = self.text.count("\r\n")
        return self.text.count("\r") > n_pairs or 0 < n_pairs < self.text.count("\n")


def encoded_like(text: str, file: FileText | None) -> bytes:
    """Return the bytes of a text in the form of a file, as UTF-8 if there is none or it has none.

    An editor does so with a text that it cannot save otherwise.
    """
    try:
        return encode_text(text, FileForm()) if file is None else file.encode(text)
    except EditRejectedError:
        return encode_text(text, FileForm())


def _has_bytes(raw: bytes, text: str, encoding: str) -> bool:
    try:
        return text.encode(encoding) == raw
    except UnicodeEncodeError:
        return False


def _no_setting() -> str | None:
    return None


def parse_text(raw: bytes, setting: Callable[[], str | None] = _no_setting) -> FileText | None:
    """Return the text in these bytes, or None if they are none or their letters make no sense.

    `setting` is asked for an encoding only if the bytes are not UTF-8 and have no mark.
    """
    bom, encoding = next((b for b in BOMS if raw.startswith(b[0])), (b"", "utf-8"))
    text = _decode_raw(raw[len(bom) :], encoding)
    if text is not None or bom:
        return None if text is None else FileText(text, sha256_of(raw), encoding, bom)
    if (encoding := setting() or "utf-8") != "utf-8":
        text, likely = _decode_raw(raw, encoding), ()
    elif likely := find_encodings(raw):
        text, encoding = _decode_raw(raw, likely[0]), likely[0]
    if text is None:
        return None
    is_set = not likely
    return FileText(text, sha256_of(raw), encoding, b"", None, likely, is_set_by_editor=is_set)


def _decode_raw(raw: bytes, encoding: str) -> str | None:
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


class Files:
    """Text files in the open folders. Each `path` is a real path from `Folders.resolve`."""

    def __init__(
        self,
        folders: Folders,
        persist: Callable[[bytes], object],
        setting: Callable[[Path], str | None] | None = None,
    ) -> None:
        """`setting` returns the encoding of a file that is not UTF-8, as the user's editor has it.

        A name such as "windows1251"; None if it has none.
        """
        self._folders = folders
        self._setting = setting
        self.encodings: dict[Path, str] = {}
        """Encodings that the agent has named, by path."""
        self._keep_blob = persist
        """Makes bytes durable somewhere else, before a file is overwritten in place."""
        self._swept_folders = set[tuple[int, int]]()
        """Folders, by device and inode, where the first write has removed earlier leftovers."""

    def read(self, path: Path) -> FileText | None:
        """Return the text; None when there is no such file. Raises `ToolError` if it is no text."""
        try:
            with self._folders.holding(path) as folder:
                raw, status = _read(folder, path)
        except FileNotFoundError:
            return None
        if (text := self.parse(path, raw)) is None:
            if (encoding := self.encodings.get(path)) is not None:
                raise ToolError(f"{quoted(path)} is not in {encoding}; name another `encoding`")
            raise ToolError(
                f"{quoted(path)} is not UTF-8, {len(raw):,} bytes; if it is a text, view it with"
                " its `encoding`, such as cp1251 or gb18030, else look at it with a command"
            )
        return replace(text, mode=stat.S_IMODE(status.st_mode))

    def parse(self, path: Path, raw: bytes) -> FileText | None:
        """Return the text in bytes of this file, read as its text is read; None if it is none."""
        encoding = self.encodings.get(path)
        if encoding is None or raw.startswith(tuple(mark for mark, _ in BOMS)):
            return parse_text(raw, partial(self._setting_of, path))
        text = _decode_raw(raw, encoding)
        return None if text is None else FileText(text, sha256_of(raw), encoding)

    def _setting_of(self, path: Path) -> str | None:
        name = self._setting(path) if self._setting is not None else None
        try:
            return encoding_named(name) if name else None
        except ToolError:
            return None  # VS Code knows encodings that Python has not.

    def choose_encoding(self, path: Path, name: str) -> None:
        """Read and write the file in this encoding from now on. Raises `ToolError`.

        A file that is UTF-8 already stays so.
        """
        encoding = encoding_named(name)
        self.encodings.pop(path, None)
        if encoding == "utf-8":
            return
        with suppress(FileNotFoundError), self._folders.holding(path) as folder:
            raw, _ = _read(folder, path)
            if not raw.isascii() and _decode_raw(raw, "utf-8") is not None:
                raise ToolError(f"{quoted(path)} is UTF-8; leave out `encoding`")
        self.encodings[path] = encoding

    def read_bytes(self, path: Path) -> bytes:
        """Return what a file has. Raises `ToolError`, also if it is too large."""
        try:
            with self._folders.holding(path) as folder:
                return _read(folder, path)[0]
        except FileNotFoundError as exc:
            raise ToolError(f"there is no file {quoted(path)}") from exc

    def replace(self, path: Path, new: bytes, expected_sha256: str) -> None:
        """Swap the content, keeping mode, owner, attributes and links.

        A text that another process has open for writing is overwritten in place, so that the
        process goes on with the same file; other content is not, which would damage a database.
        Raises `StaleDocumentError` when the file no longer has `expected_sha256`.
        """
        with _rejecting(path), self._folders.holding(path) as folder:
            old, status = _read_expected(folder, path, expected_sha256)
            if not status.st_mode & 0o222:
                raise EditRejectedError(f"{quoted(path)} is read-only; only the user can unlock it")
            self._sweep_once(folder)
            # In a sandbox, a file of another owner can only be replaced. Applied, the change leaves
            # the owner of the disk's file as it is.
            is_replaced = self._folders.isolated is not None and not _is_own(status)
            if new.startswith(old) and not is_replaced and not is_journal_name(path.name):
                _append(folder, path, new[len(old) :], old)
                return
            is_shared = status.st_nlink > 1 or status.st_uid != os.geteuid()
            is_in_use = b"\0" not in old and _is_written(folder, path)
            is_in_place = (is_shared or is_in_use) and not is_replaced
            gid = None if is_replaced else status.st_gid
            if is_in_place or not _replace_by_rename(folder, path, new, expected_sha256, gid):
                self._keep_blob(old)
                _overwrite(folder, path, old, new)

    def append(self, path: Path, data: bytes) -> None:
        """Write at the end of a file, after whatever other processes have appended to it."""
        with _rejecting(path), self._folders.holding(path) as folder:
            self._sweep_once(folder)
            _append(folder, path, data)

    def is_created_by(
        self, editor: Editor | None, path: Path, text: str, cancel: CancelToken
    ) -> bool:
        """Let the editor create the file, so that it shows that; return whether it is right."""
        is_made = editor is not None and editor.create(path, text, cancel=cancel)
        file = self.read(path) if is_made else None
        return file is not None and file.text == text

    def create(self, path: Path, data: bytes, mode: int | None = None) -> None:
        """Create a file and the folders above it; never touches an existing file."""
        with _rejecting(path), self._folders.holding(path, create=True) as folder:
            self._sweep_once(folder)
            try:
                with _temporary(folder, data, 0o666) as (temp, descriptor):
                    if mode is not None:
                        os.fchmod(descriptor, mode & PERMISSIONS)
                    os.fsync(descriptor)
                    _name(folder, temp, path.name)
            except FileExistsError as exc:
                raise EditRejectedError(
                    f"{quoted(path)} exists already; view it and change it with replace"
                ) from exc
            os.fsync(folder)

    def _sweep_once(self, folder: int) -> None:
        """Remove what other writers left, before our first write in an open folder only.

        Our own writes leave nothing while we live, and to list the folder for each of them would
        cost the square of the number of files.
        """
        status = os.fstat(folder)
        place = status.st_dev, status.st_ino
        if place not in self._swept_folders:
            self._swept_folders.add(place)
            _sweep(folder)

    def sweep(self, path: Path) -> None:
        """Complete and remove what a writer of `path` left next to it when it died."""
        with suppress(OSError, ToolError), self._folders.holding(path) as folder:
            _sweep(folder)

    def delete(self, path: Path, expected_sha256: str) -> None:
        with _rejecting(path), self._folders.holding(path) as folder:
            _read_expected(folder, path, expected_sha256)
            os.unlink(path.name, dir_fd=folder)
            os.fsync(folder)


def _read(folder: int, path: Path) -> tuple[bytes, os.stat_result]:
    try:
        descriptor = os.open(path.name, _READ, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ToolError(f"{quoted(path)} cannot be opened: {exc.strerror}") from exc
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        is_folder = stat.S_ISDIR(status.st_mode)
        kind = "a folder; use list" if is_folder else "a pipe, socket or device, not a file"
        raise ToolError(f"{quoted(path)} is {kind}")
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path.
        raw = file.read(MAX_TEXT_BYTES + 1)
    if len(raw) > MAX_TEXT_BYTES:
        raise ToolError(
            f"{quoted(path)} has {status.st_size:,} bytes, more than the"
            f" {MAX_TEXT_BYTES >> 20} MiB that this tool reads; use grep, or sed -n in the terminal"
        )
    return raw, status


def _read_expected(folder: int, path: Path, sha256: str) -> tuple[bytes, os.stat_result]:
    try:
        raw, status = _read(folder, path)
    except FileNotFoundError as exc:
        raise StaleDocumentError(f"{quoted(path)} was removed meanwhile") from exc
    if sha256_of(raw) != sha256:
        raise StaleDocumentError(f"{quoted(path)} changed on disk meanwhile; view it again")
    return raw, status


def _is_own(status: os.stat_result) -> bool:
    return (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())


def _is_written(folder: int, path: Path) -> bool:
    descriptor = os.open(path.name, _READ, dir_fd=folder)
    try:
        return bool(is_written(descriptor))
    finally:
        os.close(descriptor)


def _append(folder: int, path: Path, data: bytes, expected: bytes | None = None) -> None:
    """Write at the end of a file, with a record first that outlives us."""
    if not data:
        return
    descriptor = os.open(path.name, _APPEND, dir_fd=folder)
    try:
        if expected not in (None, os.pread(descriptor, len(expected or b"") + 1, 0)):
            raise StaleDocumentError(f"{quoted(path)} changed on disk meanwhile; view it again")
        size = os.fstat(descriptor).st_size
        record = b"%d\0%d\0%b\0%b" % (size, len(data), os.fsencode(path.name), data)
        with _temporary(folder, record, 0o600, _RECORD_NAME) as (_, record_descriptor):
            os.fsync(record_descriptor)
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            except OSError:
                if _is_cut_short(descriptor, size, data):
                    os.ftruncate(descriptor, size)
                raise
    finally:
        os.close(descriptor)


def _is_cut_short(descriptor: int, size: int, data: bytes) -> bool:
    """Return whether a file of that size has got a part of the data, and nothing else."""
    part = os.pread(descriptor, len(data) + 1, size)
    return len(part) < len(data) and data.startswith(part)


def _complete_append(folder: int, record: bytes) -> None:
    """Write the rest of what a dead process was appending, unless the file has changed since."""
    size, n_bytes, name, data = (*record.split(b"\0", 3), b"", b"", b"")[:4]
    if not (size.isdigit() and len(data) == int(n_bytes or -1)):
        return  # The process died before the record was complete, so it has appended nothing.
    descriptor = os.open(os.fsdecode(name), _APPEND, dir_fd=folder)
    try:
        n_written = os.fstat(descriptor).st_size - int(size)
        if n_written > 0 and _is_cut_short(descriptor, int(size), data):
            _write_all(descriptor, data[n_written:])
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_by_rename(
    folder: int, path: Path, new: bytes, expected_sha256: str, gid: int | None
) -> bool:
    """Return False, with nothing changed, when the new file cannot get the old one's metadata."""
    with _temporary(folder, new, 0o600) as (temp, descriptor):
        if not _copy_metadata(folder, path.name, descriptor, gid):
            return False
        _read_expected(folder, path, expected_sha256)
        os.rename(temp, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    return True


@contextmanager
def _temporary(
    folder: int, data: bytes, mode: int, form: str = _TEMP_NAME
) -> Generator[tuple[str, int]]:
    """Write `data` to a temporary file, not synced; it is removed if it has the name at the end."""
    name, descriptor = _locked_file(folder, mode, form)
    try:
        _write_all(descriptor, data)
        yield name, descriptor
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.close(descriptor)


def _locked_file(folder: int, mode: int, form: str) -> tuple[str, int]:
    """Create a file whose lock shows that its writer lives; the kernel frees it when we die."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        name = form.format(secrets.token_hex(8))
        descriptor = os.open(name, flags, mode, dir_fd=folder)
        with suppress(OSError):  # Where locks do not work, no sweep removes the file either.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return name, descriptor
        os.close(descriptor)  # Another writer's sweep was faster than the lock.


def _name(folder: int, temp: str, name: str) -> None:
    """Give the finished file its name in one step, and only if the name is free."""
    try:
        os.link(temp, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_LINKS_HERE:
            raise
        # A file system without hard links: claim the name first, then fill it in one step.
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, dir_fd=folder))
        os.rename(temp, name, src_dir_fd=folder, dst_dir_fd=folder)


def _copy_metadata(folder: int, name: str, target: int, gid: int | None) -> bool:
    source = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(source)
        if gid not in (None, os.fstat(target).st_gid):
            os.fchown(target, -1, gid)
        if hasattr(os, "listxattr"):
            _copy_attributes(source, target)
        os.fchmod(target, stat.S_IMODE(status.st_mode))
        os.fsync(target)
    except OSError as exc:
        if exc.errno in (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP):
            return False
        raise
    finally:
        os.close(source)
    return True


def _copy_attributes(source: int, target: int) -> None:
    """Give a new file the old one's attributes, and no other: it has inherited its folder's ACL."""
    old, new = (
        {name: os.getxattr(fd, name) for name in os.listxattr(fd)} for fd in (source, target)
    )
    for name in new.keys() - old.keys():
        os.removexattr(target, name)
    for name, value in old.items():
        if new.get(name) != value:
            os.setxattr(target, name, value)


def _overwrite(folder: int, path: Path, old: bytes, new: bytes) -> None:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path.name, flags, dir_fd=folder)
    try:
        if os.pread(descriptor, len(old) + 1, 0) != old:
            raise StaleDocumentError(f"{quoted(path)} changed on disk meanwhile; view it again")
        try:
            if len(new) > len(old) and hasattr(os, "posix_fallocate"):
                # Space is reserved first, so that a full disk is noticed before a byte is lost.
                os.posix_fallocate(descriptor, 0, len(new))
            _write_all(descriptor, new)
            os.ftruncate(descriptor, len(new))
            os.fsync(descriptor)
        except OSError:
            os.lseek(descriptor, 0, os.SEEK_SET)
            _write_all(descriptor, old)
            os.ftruncate(descriptor, len(old))
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sweep(folder: int) -> None:
    """Remove temporary files that dead writers left in this folder, and complete their appends."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if fnmatchcase(entry.name, _TEMP_NAME.format("*"))]
    for name in names:
        with suppress(OSError):  # Its writer is alive, or another sweep was faster.
            _remove_orphan(folder, name)


def _remove_orphan(folder: int, name: str) -> None:
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if fnmatchcase(name, _RECORD_NAME.format("*")):
            with suppress(OSError), open(descriptor, "rb", closefd=False) as file:
                _complete_append(folder, file.read())
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)


@contextmanager
def _rejecting(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise EditRejectedError(
            f"{quoted(path)} was not written and is as it was: {exc.strerror or exc}"
        ) from exc
