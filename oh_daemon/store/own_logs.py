"""Knows which logs this user's daemons began, so that one that came with a folder has no say.

A repository can hold the log of a conversation in which everything is allowed. A mark of our own
logs is in the user's state folder: the number by which the file system knows the file. A moved
folder keeps it; what is cloned, unpacked, copied or replaced has another.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oh_daemon.core.ports import Json
from oh_daemon.store.kept_files import KeptFiles
from oh_daemon.store.log_scan import LOG_NAME


@dataclass(frozen=True, slots=True)
class OwnLogs:
    """The marks in `folder`. Without one (a program gives its conversations), all are own."""

    folder: Path | None = None

    def has(self, place: Path) -> bool:
        """Return whether the log in this folder of a conversation is one of ours."""
        if self.folder is None or place.parent.parent == self.folder.parent:
            return True
        with suppress(OSError):
            return KeptFiles(self.folder).get(place.name, {}) == _mark_of(place)
        return False

    def add(self, place: Path) -> None:
        """Mark a log that was begun here. Raises `ReadOnlyError` or `StorageError`."""
        if self.folder is not None:
            KeptFiles(self.folder)[place.name] = _mark_of(place)

    def forget(self, conversation_id: str) -> None:
        if self.folder is not None:
            KeptFiles(self.folder).forget(conversation_id)


def _mark_of(place: Path) -> Json:
    return {"inode": (place / LOG_NAME).lstat().st_ino}
