"""Reads `events.jsonl` without changing it: which records it holds, and what is damaged.

Invariant: whatever bytes a file holds, reading it raises nothing but `OSError` and `ReadOnlyError`,
and every whole line of an event comes out. Locking and repair are left to `event_log`.
"""

from __future__ import annotations

import gc
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import orjson

from oh_daemon.contract.events import LOG_VERSION
from oh_daemon.core.ports import Json
from oh_daemon.store.private_files import open_private

LOG_NAME = "events.jsonl"
MAX_LINE_BYTES = 64 << 20
_BLOCK_BYTES = 4 << 20
_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Repair:
    """Something wrong with a log: bytes `offset` to `offset + size_bytes`, and what became of them.

    torn: an unfinished last line · damaged: whole lines that are no events · misnumbered: events
    out of order · gap: numbers that are missing · newer: written by a later version
    """

    kind: Literal["torn", "damaged", "misnumbered", "gap", "newer"]
    offset: int
    size_bytes: int
    detail: str
    side_file: str | None = None
    """Name of the file next to the log that has a copy of the bytes."""


class LineIndex:
    """Where each event's line is in the file, 20 bytes per event."""

    def __init__(self) -> None:
        self.seqs = array("Q")
        self.starts = array("Q")
        self.sizes = array("I")

    def add(self, seq: int, start: int, size: int) -> None:
        self.seqs.append(seq)
        self.starts.append(start)
        self.sizes.append(size)

    def between(self, first_seq: int, last_seq: int) -> list[tuple[int, int]]:
        """(start, size) of the lines of these events, newlines included in the size."""
        low, high = (bisect_left(self.seqs, max(seq, 0)) for seq in (first_seq, last_seq + 1))
        return list(zip(self.starts[low:high], self.sizes[low:high], strict=True))

    def keep(self, places: Sequence[int]) -> None:
        for name in ("seqs", "starts", "sizes"):
            old: array[int] = getattr(self, name)
            setattr(self, name, array(old.typecode, [old[place] for place in places]))


@dataclass(slots=True)
class Scan:
    """What a log holds. `records` are plain dicts as stored, in order, each seq once."""

    records: list[Json] = field(default_factory=list[Json])
    index: LineIndex = field(default_factory=LineIndex)
    markers: list[Json] = field(default_factory=list[Json])
    """The lines that are no events: header, opened, closed."""
    repairs: list[Repair] = field(default_factory=list[Repair])
    end: int = 0
    """Where the last finished line ends."""
    size: int = 0
    is_last_line_open: bool = False
    """The last line is a whole record, only its newline is missing."""
    is_newer: bool = False
    """A later version wrote last, so this one must not write."""
    ends_closed: bool = False
    n_lost: int = 0
    """Finished lines that are no longer readable, and holes in the numbering."""

    @property
    def last_seq(self) -> int:
        return self.index.seqs[-1] if self.index.seqs else 0

    @property
    def epoch(self) -> str:
        return next((m["epoch"] for m in reversed(self.markers) if "epoch" in m), "")


def read_log(folder: Path) -> list[Json]:
    """The records of a conversation that may be open elsewhere; an unfinished line is left out."""
    return scan_log(folder).records


def scan_log(folder: Path) -> Scan:
    """Read the whole log in `folder`; one that is not there is empty."""
    try:
        fd = open_private(folder / LOG_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return Scan()
    with open(fd, "rb", buffering=0) as file:
        return scan_file(file)


def follow(folder: Path, wait: Callable[[], bool], after_seq: int = 0) -> Iterator[list[Json]]:
    """New records of a log that another process writes, as they come.

    `wait` is called when nothing is new, sleeps as long as the caller likes and returns true to
    stop (`CancelToken.wait` does both).
    """
    offset = 0
    while True:
        found, offset = _read_on(folder / LOG_NAME, offset)
        fresh = [record for record in found if record["seq"] > after_seq]
        if fresh:
            after_seq = fresh[-1]["seq"]
            yield fresh
        elif wait():
            return


def last_seq_of(folder: Path) -> int | None:
    """The seq of the last event, from the end of the file; None when that does not show it."""
    with open(open_private(folder / LOG_NAME, os.O_RDONLY), "rb", buffering=0) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - (64 << 10), 0))
        lines = file.read().split(b"\n")[:-1]
    parsed = (_parse(line) for line in reversed(lines))
    return next((p["seq"] for p in parsed if p is not None and "seq" in p), None)


def scan_file(file: BinaryIO) -> Scan:
    """Read from the start of an unbuffered file."""
    scan = Scan()
    with _no_garbage_collection():
        is_in_order = _take_lines(scan, file)
    if not is_in_order:
        _drop_misnumbered(scan)
    return scan


def _take_lines(scan: Scan, file: BinaryIO) -> bool:
    """Sort the lines into records, markers and damage; true when the numbers have no holes."""
    expected, is_in_order = 1, True
    records, add = scan.records, scan.index.add
    for start, size, line in _lines(file):
        parsed = None if line is None else _parse(line)
        is_finished = line is None or size > len(line)
        scan.size = start + size
        if not is_finished and (parsed is None or line is None):
            scan.repairs.append(Repair("torn", start, size, "the last line was not finished"))
            break
        scan.end = start + size
        if parsed is None:
            _note_damage(scan, start, size)
            scan.is_newer = False
            continue
        scan.is_last_line_open = not is_finished
        _ = add, records, expected
    return is_in_order
