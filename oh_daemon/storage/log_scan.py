"""Reads `events.jsonl` without changing it: its records, what is damaged, and who has it open.

Invariant: whatever bytes a file holds, reading it raises only `OSError` and `ReadOnlyError`, and
intact events are delivered. Locking and repair are left to `event_log`.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import orjson
from msgspec import Struct, field

from oh_daemon.common.collector import paused_collector
from oh_daemon.protocol.errors import ReadOnlyError
from oh_daemon.protocol.log_version import LOG_VERSION
from oh_daemon.system.private_files import Json, parse_object, read_end, read_private

if TYPE_CHECKING:
    from oh_daemon.protocol import plain

LOG_NAME = "events.jsonl"
TORN = "torn-"
"""Begins the name of a file beside the log, with an unfinished last line that was cut off."""
TakeRecord = Callable[["plain.Record"], object]
"""Receives an event as a plain dict, which it may keep; usually it only reads it."""
_CANDIDATE = (
    "a release candidate before 1.0.0 wrote this log; no release reads it, and its file stays as"
    " it is"
)
_MAX_LINE_BYTES = 32 << 20
"""Twice the biggest message a client may send; a longer line is damage, never held in memory."""
_NEWLINE = ord("\n")
_TAIL_BYTES = 64 << 10
_TAIL_LINES = 16
_MAX_REPAIRS = 100
"""A longer list would tell a person nothing new."""


class Marker(TypedDict, total=False):
    """A line without an event: the log was opened (`header`) or `closed`."""

    v: int
    kind: str
    epoch: str
    boot: str
    damage: int


class Scan(Struct):
    """What was found in a log besides the content of its events."""

    seqs: array[int] = field(default_factory=lambda: array("Q"))
    starts: array[int] = field(default_factory=lambda: array("Q"))
    """The byte offset where the line of each event begins."""
    header: Marker = field(default_factory=Marker)
    """The last header line: who opened the log last, and its epoch."""
    is_closed: bool = False
    """Whether the last line says that the log was closed cleanly."""
    repairs: list[str] = field(default_factory=list[str])
    """What was found wrong and what was done, as sentences."""
    damage: int = 0
    """A measure of what cannot be read; it grows when more is lost."""
    end: int = 0
    """The byte offset after the last line to keep; an unfinished line may follow."""
    lacks_newline: bool = False
    """Whether the last line is complete except for its newline."""

    def pass_over(self, text: str, n_lost: int) -> None:
        """Note something that no reader can use; it stays in the file."""
        self.damage += n_lost
        if len(self.repairs) < _MAX_REPAIRS:
            self.repairs.append(text)


def scan_log(folder: Path, on_record: TakeRecord) -> Scan:
    """Scan the log of a conversation, which may be open elsewhere."""
    with read_private(folder / LOG_NAME) as file:
        return scan_file(file, on_record)


def has_lost(folder: Path, scan: Scan) -> bool:
    """Return whether there is more in the log than `scan` has read, or was before it was cut."""
    is_longer = (folder / LOG_NAME).stat().st_size > scan.end
    return bool(scan.damage) or is_longer or any(folder.glob(f"{TORN}*"))


def read_log(folder: Path) -> list[plain.Record]:
    """Return all events of a log, as stored."""
    records: list[plain.Record] = []
    scan_log(folder, records.append)
    return records


def last_seq_of(folder: Path) -> int:
    """Return the seq of the last event near the end of the file; 0 when none is found there."""
    *lines, _torn = read_end(folder / LOG_NAME, _TAIL_BYTES).rsplit(b"\n", _TAIL_LINES)
    records = map(parse_line, reversed(lines))
    return next((line["seq"] for line in records if line and "seq" in line), 0)


def scan_file(file: BinaryIO, on_record: TakeRecord) -> Scan:
    """Read a log from its start; `on_record` gets each event, in order, each seq once.

    Raises `OSError`, `ReadOnlyError` for a log of version 1, and what `on_record` raises.
    """
    scan = Scan()
    sieve = _Sieve(scan, on_record)
    with paused_collector():
        for start, size, line in _lines(file):
            record = parse_line(line)
            if record is not None and record.get("v", 0) < LOG_VERSION:
                if not scan.end:
                    raise ReadOnlyError(_CANDIDATE)
                record = None
            if record is None:
                if not line.endswith(b"\n"):
                    break  # The last line, which was not finished.
                scan.pass_over(f"{size} bytes at byte {start} are not an event; left out", size)
            elif "seq" in record:
                scan.is_closed = False
                sieve.put(record, start)
            else:
                scan.is_closed = record.get("kind") == "closed"
                scan.header = record if record.get("kind") == "header" else scan.header
            scan.end = start + size
            scan.lacks_newline = line[-1] != _NEWLINE
        sieve.close()
    return scan


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield (start, size, text) of each line; a line above the limit has only its last byte."""
    start = 0
    while line := file.readline(_MAX_LINE_BYTES):
        size = len(line)
        if size == _MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = file.readline(1 << 20)
                size += len(line)
            line = line[-1:]
        yield start, size, line
        start += size


def parse_line(line: bytes) -> plain.Record | Marker | None:
    """Parse a line into a marker (with a `kind`) or an event (with a `seq`); None for neither."""
    try:
        record = orjson.loads(line)
        if type(record["v"]) is not int:
            return None
        if "kind" in record:
            return None if "seq" in record else record
        is_numbered = type(record["seq"]) is int and 0 < record["seq"] < 1 << 53
        is_event = type(record["ts"]) is str and type(record["event"]["type"]) is str
    except (ValueError, LookupError, TypeError):
        return None
    return record if is_numbered and is_event else None


class _Sieve:
    """Leaves out duplicate events and those out of order, and notes which ones are missing."""

    def __init__(self, scan: Scan, on_record: TakeRecord) -> None:
        self._scan = scan
        self._on_record = on_record
        self._add_seq, self._add_start = scan.seqs.append, scan.starts.append
        self._last = 0
        self._doubtful: tuple[plain.Record, int] | None = None

    def put(self, event: plain.Record, start: int) -> None:
        seq = event["seq"]
        if self._doubtful is not None:
            self._decide(*self._doubtful, next_offset=seq)
        if seq == self._last + 1:
            self._keep_event(event, seq, start)
        else:
            self._doubtful = event, start

    def close(self) -> None:
        if self._doubtful is not None:
            self._decide(*self._doubtful, next_offset=math.inf)

    def _decide(self, event: plain.Record, start: int, next_offset: float) -> None:
        """Accept a jump in the numbers only when the next event has a higher number still.

        Otherwise one wrong number would hide all events after it.
        """
        self._doubtful = None
        seq, last = event["seq"], self._last
        if not last < seq < next_offset:
            self._scan.pass_over(f"event {seq} is there twice or out of order; left out", 1)
            return
        self._scan.pass_over(f"events {last + 1} to {seq - 1} are missing", seq - last)
        self._keep_event(event, seq, start)

    def _keep_event(self, event: plain.Record, seq: int, start: int) -> None:
        self._last = seq
        self._add_seq(seq)
        self._add_start(start)
        self._on_record(event)


def lock_owner(folder: Path) -> Json:
    """Return who has the log open, {pid, startedAt, client}; empty when nobody has. For people."""
    try:
        with read_private(folder / "lock") as file:
            # The file is empty for the moment in which its owner starts.
            owner = parse_object(file.read(4096))
    except (OSError, ReadOnlyError):
        return {}
    pid = owner.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return {}
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return {}
    except PermissionError:
        pass  # The process lives and belongs to another user.
    return owner
