"""Payloads too big for a log line, one file each, named by their SHA-256.

A blob appears whole or not at all while the daemon lives and is durable after `commit`; what a
power loss may have left behind is found by hashing a file before its first use.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from oh_daemon.contract.errors import ReadOnlyError, StorageError, UserError
from oh_daemon.store.private_files import read_private, storage_error, sync_path, write_new

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The blobs of one conversation. Safe from any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._whole: set[str] = set()
        """Written or hashed by this process, so known to hold what the name says."""
        self._unsynced: set[str] = set()

    def put(self, data: bytes) -> str:
        """Store `data`; the result is its name. Raises `StorageError`."""
        sha256 = hashlib.sha256(data).hexdigest()
        return self._store(sha256, lambda temp: write_new(temp, data))

    def put_file(self, path: Path) -> str:
        """The same for a finished file, which is taken away from `path`."""
        try:
            path.chmod(0o600)
            sha256 = self._store(_hash_of(path), lambda temp: shutil.move(path, temp))
            path.unlink(missing_ok=True)
        except OSError as exc:
            raise storage_error(path, exc) from exc
        return sha256

    def _store(self, sha256: str, fill: Callable[[Path], object]) -> str:
        temp = self._folder / f".{uuid.uuid4().hex}.tmp"
        try:
            if not self._is_whole(sha256):
                fill(temp)
                temp.rename(self._folder / sha256)
        except OSError as exc:
            temp.unlink(missing_ok=True)
            raise storage_error(self._folder, exc) from exc
        # Also when the file was there: the process that wrote it may have died before its sync.
        with self._lock:
            self._whole.add(sha256)
            self._unsynced.add(sha256)
        return sha256

    def read(self, sha256: str, offset: int = 0, limit: int = -1) -> bytes:
        """At most `limit` bytes from `offset`. Raises `UserError` for a name that is not there."""
        if not _SHA256.fullmatch(sha256):
            raise UserError(f"{sha256[:80]!r} is not the name of an output; use one from an item")
        path = self._folder / sha256
        try:
            if self._is_whole(sha256):
                with read_private(path) as file:
                    file.seek(offset)
                    return file.read(limit)
        except OSError as exc:
            raise StorageError(f"cannot read output {sha256!r}: {exc.strerror}") from exc
        if path.exists():
            raise StorageError(f"output {sha256!r} is damaged on disk; run the command again")
        raise UserError(f"output {sha256!r} is not in this conversation; it may be deleted")

    def commit(self) -> None:
        """Make all blobs so far durable. Raises `OSError`; then they are tried again."""
        with self._lock:
            names = set(self._unsynced)
        if not names:
            return
        for name in names:
            sync_path(self._folder / name)
        sync_path(self._folder)
        with self._lock:
            self._unsynced -= names

    def _is_whole(self, sha256: str) -> bool:
        path = self._folder / sha256
        with self._lock:
            is_known = sha256 in self._whole
        try:
            if not (path.exists() if is_known else _hash_of(path) == sha256):
                return False
        except (FileNotFoundError, ReadOnlyError):
            return False
        with self._lock:
            self._whole.add(sha256)
        return True


def _hash_of(path: Path) -> str:
    with read_private(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
