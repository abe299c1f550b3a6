"""Text that still streams, on the disk beside the log, so that it survives the end of its daemon.

Each item that streams has a file with nothing but its text; the file goes once the end of the item
is durable in the log. Nothing is synced here: the kernel keeps what a killed process has written,
and only a machine that crashes loses it. Of a long text, the last MiB stays (decision 92).
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.common.partial_text import PartialText
from oh_daemon.protocol.errors import ReadOnlyError
from oh_daemon.system.private_files import open_private, read_private, write_all

logger = logging.getLogger(__name__)

PREFIX = "partial-"
"""Begins the name of each such file; the item's id and the number of the part follow."""
_GROUP_S = 0.1
"""Far enough below the 250 ms that docs/protocol promises for a machine that is busy."""
_PART_BYTES = 1 << 20
_MAX_FILE_BYTES = 8 << 20
"""A part is at most two MiB of characters of four bytes."""


class PartialThread:
    """The daemon's only such thread: sleeps while nothing streams, else writes every 0.1 s."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._pending_jobs: list[Callable[[], None]] = []
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="partial-text", daemon=True)
        self._thread.start()

    def schedule(self, write: Callable[[], None]) -> None:
        """Call this soon, on the thread."""
        with self._condition:
            if not self._pending_jobs:
                self._condition.notify()
            self._pending_jobs.append(write)

    def close(self) -> None:
        """Write what waits and end the thread."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            for write in batch:
                write()

    def _next_batch(self) -> list[Callable[[], None]]:
        """Return what was scheduled; empty when it is time to stop."""
        with self._condition:
            self._condition.wait_for(lambda: self._pending_jobs or self._is_closing)
            self._condition.wait_for(lambda: self._is_closing, _GROUP_S)
            batch, self._pending_jobs = self._pending_jobs, []
            return batch


class _Stream(Struct):
    """What an item streams: what waits to be written, and how far its file is."""

    pieces: deque[str] = field(default_factory=deque[str])
    n_chars: int = 0
    """How many wait."""
    has_hole: bool = False
    """Whether some was dropped, so that what waits does not continue what is in the file."""
    part: int = 0
    part_bytes: int = 0

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.n_chars += len(text)
        while self.n_chars - len(self.pieces[0]) > _PART_BYTES:  # The disk does not keep up.
            self.n_chars -= len(self.pieces.popleft())
            self.has_hole = True

    def take(self) -> bytes:
        """Return what waits, for the part that is now current."""
        data = "".join(self.pieces).encode("utf-8", "replace")
        self.pieces.clear()
        self.n_chars = 0
        if self.has_hole or self.part_bytes >= _PART_BYTES:
            # Two parts ahead, nothing that came before is kept.
            self.part += 2 if self.has_hole else 1
            self.part_bytes, self.has_hole = 0, False
        self.part_bytes += len(data)
        return data


class PartialFiles:
    """The `PartialTexts` of a conversation that has a folder."""

    def __init__(self, folder: Path, thread: PartialThread) -> None:
        self._folder = folder
        self._thread = thread
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while files are written or removed; taken before the other."""
        self._streams: dict[str, _Stream] = {}
        self._ended_ids: set[str] = set()
        self._is_due = False

    def add(self, item_id: str, text: str) -> None:
        """Have the next piece of an item's text in its file soon."""
        with self._lock:
            if (stream := self._streams.get(item_id)) is None:
                stream = self._streams[item_id] = _Stream()
            stream.add(text)
            is_due, self._is_due = self._is_due, True
        if not is_due:
            self._thread.schedule(self._write)

    def end(self, item_id: str) -> None:
        """Note that the log has the end of this item, so that its text goes with the next sync."""
        with self._lock:
            stream = self._streams.pop(item_id, None)
            if stream is not None and stream.part_bytes:
                self._ended_ids.add(item_id)

    def read(self) -> Mapping[str, PartialText]:
        """Return what an earlier daemon left, by item; it goes with the next sync."""
        texts: dict[str, PartialText] = {}
        for item_id, part, path in sorted(self._files()):
            with suppress(OSError, ReadOnlyError), read_private(path) as file:
                text = file.read(_MAX_FILE_BYTES).decode("utf-8", "ignore")
                before = texts.get(item_id, PartialText("", is_whole=part == 0))
                texts[item_id] = PartialText(before.text + text, is_whole=before.is_whole)
        with self._lock:
            self._ended_ids |= texts.keys()
        return texts

    def ended_ids(self) -> frozenset[str]:
        """Return the items whose end the log has by now, and whose texts are still there."""
        with self._lock:
            return frozenset(self._ended_ids)

    def drop(self, item_ids: frozenset[str]) -> None:
        """Remove the texts of these items, whose end is durable."""
        with self._writing:
            with self._lock:
                self._ended_ids -= item_ids
            if item_ids:
                self._remove(lambda item_id, _part: item_id in item_ids)

    def _write(self) -> None:
        with self._writing:
            with self._lock:
                self._is_due = False
                pending_streams = {
                    i: stream for i, stream in self._streams.items() if stream.pieces
                }
                before = {item_id: stream.part for item_id, stream in pending_streams.items()}
                data = {item_id: stream.take() for item_id, stream in pending_streams.items()}
            for item_id, stream in pending_streams.items():
                if stream.part != before[item_id]:
                    self._remove(partial(_is_before, item_id, stream.part - 1))
                try:
                    self._append(f"{PREFIX}{item_id}-{stream.part}", data[item_id])
                except (OSError, ReadOnlyError) as exc:
                    stream.has_hole = True
                    logger.debug("what item %s streams cannot be kept: %s", item_id, exc)

    def _append(self, name: str, data: bytes) -> None:
        fd = open_private(self._folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)

    def _files(self) -> Iterator[tuple[str, int, Path]]:
        """Yield the item, the number of the part and the path of each file."""
        for path in self._folder.glob(f"{PREFIX}*-*"):
            item_id, _, part = path.name.removeprefix(PREFIX).rpartition("-")
            if part.isascii() and part.isdigit():
                yield item_id, int(part), path

    def _remove(self, is_over: Callable[[str, int], bool]) -> None:
        for item_id, part, path in list(self._files()):
            if is_over(item_id, part):
                with suppress(OSError):
                    path.unlink()


def _is_before(of_item: str, first_part: int, item_id: str, part: int) -> bool:
    return item_id == of_item and part < first_part
