"""The conversations of one folder: where they are, and a summary of each without reading its log.

`meta.json` beside a log caches that summary; when it is missing, corrupt or older than the log, it
is made again from the log. What a process has read of a log it keeps until the log changes.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from oh_daemon.protocol.base import names_on_wire
from oh_daemon.protocol.errors import ConversationNotFoundError, DaemonError, ReadOnlyError
from oh_daemon.protocol.summaries import ConversationInfo
from oh_daemon.storage.log_scan import (
    LOG_NAME,
    has_lost,
    last_seq_of,
    lock_owner,
    parse_line,
    scan_log,
)
from oh_daemon.storage.search_index import IndexEntry, line_with
from oh_daemon.system.private_files import (
    disk_error,
    private_folder,
    read_end,
    read_private,
    replace_file,
    storage_error,
)

if TYPE_CHECKING:
    from oh_daemon.kernel.ports import Json
    from oh_daemon.kernel.state import State
    from oh_daemon.protocol import plain

logger = logging.getLogger(__name__)

DAMAGED = "Damaged conversation"
"""The title of one whose first event cannot be read."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_META_NAME = "meta.json"
_MAX_META_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 20
"""Longer than any record of a model call."""
_MAX_SCAN_BYTES = 8 << 20
"""Of a log that another process is writing; until that rests, a list would scan it each time."""
_END_BYTES = 256 << 10
_MALFORMED = (LookupError, TypeError, AttributeError)


def summary_of(state: State) -> Json:
    """Return what a list shows of a conversation: the `ConversationInfo` fields its log knows."""
    return {
        "id": state.conversation_id,
        "title": state.title,
        "parentId": state.parent_id,
        "isolated": state.isolation,
        "folders": list(state.folders),
        "status": state.status,
        "statusReason": state.status_reason,
        "model": state.agent["model"],
        "modelLabel": state.agent["label"],
        "createdAt": state.created_at,
        "updatedAt": state.updated_at,
        "lastSeq": state.seq,
        "messageCount": state.message_count,
        "fileCount": len({uri for files in state.turn_changes.values() for uri in files}),
        "usage": state.usage,
        "context": state.context,
        "options": state.options,
        "archived": state.archived,
        "tags": list(state.tags),
        "metadata": state.metadata,
        "forkedFrom": state.forked_from,
        "queueLength": len(state.queue),
        "pendingCount": len(state.pending),
    }


_FIELDS = {*names_on_wire(ConversationInfo)} - {"epoch", "turnId", "lock"}
"""What `summary_of` returns; the others are of the moment."""


class Catalog:
    """The conversations below `home`, a folder's `.openhands`. Safe from any thread."""

    def __init__(self, home: Path, entries: dict[str, IndexEntry] | None = None) -> None:
        """`entries` has what this process remembers, by the path of the log."""
        self._home = home
        self._conversations = home / "conversations"
        self._base = str(self._conversations)
        self._entries: dict[str, IndexEntry] = {} if entries is None else entries

    def create(self, conversation_id: str) -> Path:
        """Make the folder of a new conversation, for `open_log(..., create=True)`.

        Raises `ReadOnlyError` and `StorageError` that name a way out.
        """
        if not _ID.fullmatch(conversation_id):
            raise ConversationNotFoundError(conversation_id)
        # A repository may hold a link of this name that leads out of it.
        if self._home.is_symlink():
            raise ReadOnlyError(f"{str(self._home)!r} is a link; replace it by a folder")
        folder = self._conversations / conversation_id
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            private_folder(self._conversations)
            private_folder(folder)
            # An existing file stays as it is: the user may have edited it.
            with suppress(FileExistsError), (self._home / ".gitignore").open("x") as file:
                file.write("conversations/\nmemory/\n.gitignore\n")
        except OSError as exc:
            raise disk_error(self._home, exc) from exc
        return folder

    def remove(self, conversation_id: str, *, permanent: bool) -> None:
        """Move a conversation's folder to `.trash`, or delete it. Raises `StorageError`."""
        folder, trash = self._conversations / conversation_id, self._conversations / ".trash"
        try:
            if permanent:
                shutil.rmtree(folder)
                return
            private_folder(trash)
            folder.rename(trash / f"{conversation_id}-{time.time_ns()}")
        except OSError as exc:
            raise storage_error(folder, exc) from exc

    def discard(self, conversation_id: str) -> None:
        """Remove the folder of a conversation that never began; one with events stays."""
        folder = self._conversations / conversation_id
        with suppress(OSError, DaemonError):
            if not ((folder / LOG_NAME).exists() and last_seq_of(folder)):
                shutil.rmtree(folder)

    def find_folder(self, conversation_id: str) -> Path | None:
        """Return the folder with the log of this conversation; None when it is not here."""
        folder = self._conversations / conversation_id
        is_here = _ID.fullmatch(conversation_id) and (folder / LOG_NAME).is_file()
        return folder if is_here else None

    def owner_of(self, conversation_id: str) -> Json:
        """Return the process that has it open, {pid, startedAt, client}; empty when none has."""
        return lock_owner(self._conversations / conversation_id)

    def summaries(self, ids: Container[str] = ()) -> list[Json]:
        """Return summaries of all readable conversations but those `known`, newest first."""
        rows: list[Json] = []
        for name in self._names():
            entry = self._entry(name)
            if name in ids or entry is None:
                continue
            summary = entry.summary or self._summary(self._conversations / name)
            if summary is not None:
                rows.append(summary)
            # One of a long log depends on who has that open, and is quick to read.
            if entry.size_bytes <= _MAX_SCAN_BYTES:
                entry.summary = summary
        return sorted(rows, key=lambda summary: str(summary.get("updatedAt")), reverse=True)

    def line_with(self, conversation_id: str, words: tuple[str, ...]) -> str | None:
        """Return the line of a listed conversation that has most of the words, which are folded.

        None if one of them is nowhere in it.
        """
        log = self._log(conversation_id)
        entry = self._entries.get(log)
        return entry and line_with(words, entry, log)

    def _entry(self, name: str) -> IndexEntry | None:
        """Return what is known of a log as it is now; None if there is none."""
        log = self._log(name)
        try:
            status = os.stat(log)  # noqa: PTH116 - runs for each of all conversations, as text.
        except OSError:
            return None
        stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
        entry = self._entries.get(log)
        if entry is None or entry.stamp != stamp:
            entry = self._entries[log] = IndexEntry(stamp)
        return entry

    def _log(self, name: str) -> str:
        return f"{self._base}/{name}/{LOG_NAME}"

    def usage_records(self) -> Iterator[plain.Record]:
        """Yield the records of model calls, each once, of all readable conversations."""
        for name in self._names():
            place = self._conversations / name
            with suppress(OSError, DaemonError), read_private(place / LOG_NAME) as log:
                # A line may be damage of any length; what is in its pieces is no record.
                for line in iter(lambda: log.readline(_MAX_LINE_BYTES), b""):
                    # Most lines hold other events, and parsing them would take most of the time.
                    if b'"usage.updated"' in line:
                        with suppress(orjson.JSONDecodeError, *_MALFORMED):
                            record = orjson.loads(line)
                            # The usage of a sub-agent is in its own log as well.
                            if record["event"].get("purpose") != "subagent":
                                yield record

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self._conversations)  # noqa: PTH208 - as in `_entry`.
        except OSError:
            return []
        return [name for name in names if _ID.fullmatch(name)]

    def write_meta(self, conversation_id: str, summary: Json) -> None:
        """Cache the summary for the next list; as it is only a cache, an error is just logged."""
        if (entry := self._entries.get(self._log(conversation_id))) is not None:
            entry.summary = None
        try:
            replace_file(self._conversations / conversation_id / _META_NAME, orjson.dumps(summary))
        except OSError as exc:
            logger.warning("no %s for conversation %s: %s", _META_NAME, conversation_id, exc)

    def _summary(self, folder: Path) -> Json | None:
        try:
            last_seq = last_seq_of(folder)
            with suppress(OSError, DaemonError, ValueError, *_MALFORMED):
                meta = orjson.loads(read_end(folder / _META_NAME, _MAX_META_BYTES))
                # Earlier versions did not count files; to count them now would read every log.
                if meta.keys() | {"fileCount"} == _FIELDS:
                    meta["id"] = folder.name
                    if meta["lastSeq"] == last_seq:
                        return _checked_summary(meta)
                    if _is_long(folder / LOG_NAME) and lock_owner(folder):
                        return _checked_summary(_brought_on(meta, folder / LOG_NAME))
            from oh_daemon.kernel.folding import apply  # noqa: PLC0415 - most have a summary.
            from oh_daemon.kernel.state import State  # noqa: PLC0415 - as above.

            state = State(folder.name)
            scan = scan_log(folder, partial(apply, state))
            if not (state.seq or has_lost(folder, scan)):
                return None
            summary = summary_of(state)
            summary = _checked_summary(summary if state.created_at else self._of_damaged(summary))
        # A damaged log may hold events that make no sense; it must not hide the other logs.
        except (OSError, DaemonError, ValueError, *_MALFORMED) as exc:
            logger.warning("conversation %s is not listed: %s", folder.name, exc)
            return None
        self.write_meta(folder.name, summary)
        return summary

    def _of_damaged(self, summary: Json) -> Json:
        """Return what a list shows of a conversation whose first event is damaged."""
        log = self._conversations / summary["id"] / LOG_NAME
        changed_at = datetime.fromtimestamp(log.stat().st_mtime, UTC).isoformat()
        known_fields = {"title": DAMAGED, "createdAt": changed_at, "updatedAt": changed_at}
        # In the user's own folder, conversations have none.
        is_of_folder = self._home.name == ".openhands"
        return {**summary, **known_fields, "folders": [self._home.parent.as_uri()] * is_of_folder}


def _is_long(log: Path) -> bool:
    return log.stat().st_size > _MAX_SCAN_BYTES


def _brought_on(meta: Json, log: Path) -> Json:
    """Return the summary with what the end of the log says: the status, and when it changed."""
    for line in read_end(log, _END_BYTES).split(b"\n"):
        record = parse_line(line)
        if record is not None and "seq" in record:
            meta |= {"lastSeq": record["seq"], "updatedAt": record["ts"]}
            if record["event"]["type"] == "status.changed":
                reason = record["event"].get("reason")
                meta |= {"status": record["event"]["to"], "statusReason": reason}
    return meta


def _checked_summary(summary: Json) -> Json:
    """Return the summary if it can be shown. Raises `ValueError`: a repository may bring any."""
    ConversationInfo.model_validate({**summary, "lock": {"mine": False}})
    return summary
