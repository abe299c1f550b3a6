"""Payloads too big for a log line, one file each, named by their SHA-256.

A blob gets its name only when its bytes are durable, so every file with such a name is complete,
even after a crash.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG

from oh_daemon.protocol.errors import StorageError, UserError
from oh_daemon.system.private_files import read_private, storage_error, sync_path, write_new

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The blobs of one conversation. Safe from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._durable = set[str]()
        """Names that this process has synced."""

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its name. Raises `StorageError`."""
        sha256 = hashlib.sha256(data).hexdigest()
        return self._store(sha256, lambda temp: write_new(temp, data))

    def put_file(self, path: Path) -> str:
        """Store a finished file as `put` does, and remove it from `path`."""
        try:
            path.chmod(0o600)
            sha256 = self._store(_hash_of(path), lambda temp: shutil.move(path, temp))
            path.unlink(missing_ok=True)
        except OSError as exc:
            raise storage_error(path, exc) from exc
        return sha256

    def _store(self, sha256: str, fill: Callable[[Path], object]) -> str:
        place = self._folder / sha256
        if sha256 in self._durable and place.exists():
            return sha256
        temp = self._folder / f".{uuid.uuid4().hex}.tmp"
        try:
            if not place.exists():
                fill(temp)
                sync_path(temp)
                temp.rename(place)
            # Also when the blob existed: whoever stored it may have died before this sync.
            sync_path(self._folder)
            self._durable.add(sha256)
        except OSError as exc:
            temp.unlink(missing_ok=True)
            raise storage_error(self._folder, exc) from exc
        return sha256

    def read(self, sha256: str, offset: int = 0, limit: int = -1) -> bytes:
        """Return at most `limit` bytes from `offset`. Raises `UserError` for an unknown name."""
        with self._open_blob(sha256) as file:
            file.seek(offset)
            return file.read(limit)

    def size(self, sha256: str) -> int:
        """Return the size in bytes. Raises as `read` does."""
        with self._open_blob(sha256) as file:
            return os.fstat(file.fileno()).st_size

    @contextmanager
    def _open_blob(self, sha256: str) -> Generator[BufferedReader]:
        if not _SHA256.fullmatch(sha256):
            raise UserError(f"{sha256[:80]!r} is not the name of an output; use one from an item")
        try:
            with read_private(self._folder / sha256) as file:
                yield file
        except FileNotFoundError as exc:
            raise UserError(
                f"output {sha256!r} is not in this conversation; it may be deleted"
            ) from exc
        except OSError as exc:
            raise StorageError(f"cannot read output {sha256!r}: {exc.strerror}") from exc


def share_blobs(source: Path, target: Path) -> None:
    """Give all blobs in a folder to another conversation, which has none yet.

    What a log that came with the folder has under such names may be links to files elsewhere:
    they are left out. Raises `StorageError`.
    """
    try:
        for blob in () if source.is_symlink() else source.iterdir():
            if _SHA256.fullmatch(blob.name) and S_ISREG(blob.lstat().st_mode):
                link_or_copy(blob, target / blob.name)
        sync_path(target)
    except OSError as exc:
        raise storage_error(target, exc) from exc


def link_or_copy(source: Path | str, target: Path | str) -> None:
    """Give a file that never changes a second name, or copy it where links are not possible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        temp = Path(f"{target}.tmp")
        shutil.copyfile(source, temp, follow_symlinks=False)
        sync_path(temp)
        temp.rename(target)


def _hash_of(path: Path) -> str:
    with read_private(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
