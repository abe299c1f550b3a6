"""Knows which logs this user's daemons began, so that one that came with a folder has no say.

A repository can hold the log of a conversation in which everything is allowed. A mark of our own
logs is in the user's state folder: the number by which the file system knows the file. A moved
folder keeps it; what is cloned, unpacked, copied or replaced has another. A fork is as its source.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import orjson
from msgspec import Struct

from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import plain
from oh_daemon.storage.blobs import link_or_copy, share_blobs
from oh_daemon.storage.catalog import Catalog
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.event_log import open_log
from oh_daemon.storage.log_scan import LOG_NAME
from oh_daemon.system.private_files import PrivateValues


class OwnLogs(Struct, frozen=True):
    """The marks in `folder`. Without one (a program gives its conversations), all are own."""

    folder: Path | None = None

    def has(self, place: Path) -> bool:
        """Return whether the log in this folder of a conversation is one of ours."""
        if self.folder is None or place.parent.parent == self.folder.parent:
            return True
        with suppress(OSError):
            mark = PrivateValues(self.folder).get(place.name, {})
            return mark.get("inode") == _mark_of(place)["inode"]
        return False

    def projects(self) -> list[Path]:
        """Return the folders in which logs were begun, as far as they are still there."""
        marks = PrivateValues(self.folder).all() if self.folder is not None else ()
        project_paths = dict.fromkeys(mark["project"] for mark in marks if "project" in mark)
        return [path for path in map(Path, project_paths) if path.is_dir()]

    def add(self, place: Path) -> None:
        """Mark a log that was begun here. Raises `ReadOnlyError` or `StorageError`."""
        if self.folder is not None:
            PrivateValues(self.folder)[place.name] = _mark_of(place)

    def forget(self, conversation_id: str) -> None:
        if self.folder is not None:
            PrivateValues(self.folder).forget(conversation_id)


def _mark_of(place: Path) -> Json:
    mark: Json = {"inode": (place / LOG_NAME).lstat().st_ino}
    home = place.parents[1]
    return {**mark, "project": str(home.parent)} if home.name == ".openhands" else mark


def write_fork(
    source: Path, records: Sequence[plain.Record], commit: CommitThread, own_logs: OwnLogs
) -> str:
    """Write a new log beside the one in `source`, blobs first, and return its conversation id.

    It is one of ours if its source is.
    """
    catalog, forked_id = Catalog(source.parents[1]), new_id()
    place = catalog.create(forked_id)
    lines = b"".join(orjson.dumps(record) + b"\n" for record in records)
    try:
        log = open_log(place, commit, create=True).log
        try:
            share_blobs(source / "blobs", place / "blobs")
            log.append(lines)
            if own_logs.has(source):
                # Those of another log are never used.
                _share_checkpoints(source / "checkpoints", place / "checkpoints")
                own_logs.add(place)
        finally:
            log.close()
    except BaseException:
        catalog.remove(forked_id, permanent=True)
        raise
    return forked_id


def _share_checkpoints(source: Path, target: Path) -> None:
    """Hard links are enough: git never changes a file that it has written, but replaces it."""
    passing = shutil.ignore_patterns("*.lock", "tmp_*")
    # A command that is just ending may remove a file after the copy has listed it.
    with suppress(FileNotFoundError, shutil.Error):
        shutil.copytree(source, target, symlinks=True, ignore=passing, copy_function=link_or_copy)
