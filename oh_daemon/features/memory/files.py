"""The notes of the agent's memory on disk: Markdown files that the user may edit at any time.

A note is appended under a lock of its file, so none is lost when several daemons write.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from oh_daemon.features.memory.notes import Note, parse_notes
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.system.private_files import (
    disk_error,
    open_private,
    private_folder,
    read_end,
    write_all,
)

MAX_FILES = 100
MAX_FILE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes in the memory's folders, given by scope. Safe from any thread."""

    folders: Mapping[str, Path]

    def read(self) -> list[Note]:
        """Return all notes, by scope and file; a file that cannot be read is left out."""
        notes: list[Note] = []
        for scope, folder in self.folders.items():
            for path in islice(sorted(folder.glob("*.md")), MAX_FILES):
                with suppress(OSError, DaemonError):
                    # The newest notes are at the end.
                    text = read_end(path, MAX_FILE_BYTES).decode("utf-8", "replace")
                    notes += parse_notes(f"{scope}/{path.name}", text)
        return notes

    def add(self, scope: str, topic: str, entry: str) -> Path:
        """Append an entry to a file and make it durable. Raises `ReadOnlyError`, `StorageError`."""
        folder = self.folders[scope]
        path = folder / f"{topic}.md"
        try:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            private_folder(folder)
            self._append(path, entry)
        except OSError as exc:
            raise disk_error(path, exc) from exc
        return path

    def _append(self, path: Path, entry: str) -> None:
        while True:
            fd = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _is_still(path, fd):
                    continue  # An editor has replaced the file by a new one.
                size = os.fstat(fd).st_size
                ending = os.pread(fd, 1, size - 1) if size else b""
                gap = b"" if not size else b"\n" if ending == b"\n" else b"\n\n"
                write_all(fd, gap + entry.encode("utf-8", "replace"))
                os.fsync(fd)
            finally:
                os.close(fd)
            return


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False
