"""A log in memory that ends with its process, for conversations without a workspace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from oh_daemon.common.partial_text import NoPartialTexts, PartialTexts
from oh_daemon.protocol.errors import StorageError, UserError


class MemoryLog:
    """An `EventLog` in memory. Safe from any thread: each method is one step on a list."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._blobs: dict[str, bytes] = {}
        self.partial: PartialTexts = NoPartialTexts()

    def append(self, lines: bytes) -> None:
        """Keep one or several complete lines, whose seqs follow the last."""
        self._lines.extend(lines.split(b"\n")[:-1])

    def read_range(self, first_seq: int, last_seq: int) -> list[bytes]:
        """Return the lines of these events, without newlines."""
        return self._lines[max(first_seq - 1, 0) : max(last_seq, 0)]

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def after_sync(self, callback: Callable[[StorageError | None], None]) -> None:
        """Call back at once, on this thread."""
        callback(None)

    def put_blob(self, data: bytes) -> str:
        """Keep bytes and return their SHA-256 in hex."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._blobs[sha256] = data
        return sha256

    def put_blob_file(self, path: Path) -> str:
        """Keep the content of a finished file as `put_blob` does, and remove the file."""
        sha256 = self.put_blob(path.read_bytes())
        path.unlink()
        return sha256

    def read_blob(self, sha256: str, offset: int = 0, limit: int = -1) -> bytes:
        """Return at most `limit` bytes from `offset`. Raises `UserError` for an unknown name."""
        return self._blob(sha256)[offset:][: None if limit < 0 else limit]

    def blob_size(self, sha256: str) -> int:
        """Return the size in bytes. Raises as `read_blob` does."""
        return len(self._blob(sha256))

    def _blob(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise UserError(f"output {sha256[:80]!r} is not in this conversation; use an item's")
        return self._blobs[sha256]

    def close(self) -> None:
        """Do nothing: no resource is held."""
