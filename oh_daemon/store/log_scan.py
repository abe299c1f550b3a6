"""Reads `events.jsonl` without changing it: which records it holds, and what is damaged.

Invariant: whatever bytes a file holds, reading it raises nothing but `OSError` and `ReadOnlyError`,
and an event that is whole comes out. Locking and repair are left to `event_log`.
"""

from __future__ import annotations

import gc
import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson

from oh_daemon.contract.events import LOG_VERSION
from oh_daemon.core.ports import Json
from oh_daemon.store.private_files import read_end, read_private

LOG_NAME = "events.jsonl"
_MAX_LINE_BYTES = 32 << 20
"""Twice the biggest message a client may send; a longer line is damage and never held whole."""
_TAIL_BYTES = 64 << 10
_TAIL_LINES = 16
_MAX_REPAIRS = 100
"""More than these tell a person nothing new."""


@dataclass(slots=True)
class Scan:
    """What a log holds. `records` are plain dicts as stored, in order, each seq once."""

    records: list[Json] = field(default_factory=list[Json])
    starts: array[int] = field(default_factory=lambda: array("Q"))
    """Where the line of each record begins."""
    header: Json = field(default_factory=dict[str, object])
    """The last header line: who opened the log last, and its epoch."""
    is_closed: bool = False
    """The last line says that whoever had it open was done with it."""
    is_newer: bool = False
    """A later version has written here, so this one must not."""
    repairs: list[str] = field(default_factory=list[str])
    """What was found and what was done, as sentences."""
    damage: int = 0
    """A measure of what cannot be read; it grows when more is lost."""
    end: int = 0
    """Where the last line ends that may stay; what follows is torn."""
    lacks_newline: bool = False
    """The last line is whole, only its newline is missing."""

    def pass_over(self, text: str, n_lost: int) -> None:
        """Note what no reader can use. It stays in the file."""
        self.damage += n_lost
        if len(self.repairs) < _MAX_REPAIRS:
            self.repairs.append(text)


def scan_log(folder: Path) -> Scan:
    """The log of a conversation that may be open elsewhere."""
    with read_private(folder / LOG_NAME) as file:
        return scan_file(file)


def read_log(folder: Path) -> list[Json]:
    return scan_log(folder).records


def last_seq_of(folder: Path) -> int:
    """The seq of the last event, read from the end of the file; 0 when that does not show it."""
    *whole, _torn = read_end(folder / LOG_NAME, _TAIL_BYTES).rsplit(b"\n", _TAIL_LINES)
    parsed = map(parse_line, reversed(whole))
    return next((line["seq"] for line in parsed if line and "seq" in line), 0)


def scan_file(file: BinaryIO) -> Scan:
    """Read a log from its start. Raises `OSError`."""
    scan = Scan()
    # 100,000 new dicts are no garbage, yet the collector would look through them again and again.
    gc.disable()
    try:
        for start, size, line in _lines(file):
            _take_line(scan, start, size, line)
    finally:
        gc.enable()
    _drop_misnumbered(scan)
    return scan


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(start, size, text) of each line; of a line above the limit the text is only its end."""
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


def _take_line(scan: Scan, start: int, size: int, line: bytes) -> None:
    parsed = parse_line(line)
    is_finished = line.endswith(b"\n")
    if parsed is None and not is_finished:
        return
    scan.end = start + size
    scan.lacks_newline = not is_finished
    if parsed is None:
        scan.pass_over(f"{size} bytes at byte {start} are no event; left out", size)
        return
    scan.is_newer |= parsed["v"] > LOG_VERSION
    kind = parsed.get("kind")
    scan.is_closed = kind == "closed"
    if kind is None:
        scan.records.append(parsed)
        scan.starts.append(start)
    elif kind == "header":
        scan.header = parsed


def parse_line(line: bytes) -> Json | None:
    """The line as a marker (it has a `kind`) or an event (a `seq`); None when it is neither."""
    try:
        parsed = orjson.loads(line)
        if type(parsed["v"]) is not int:
            return None
        if "kind" in parsed:
            return None if "seq" in parsed else parsed
        is_numbered = type(parsed["seq"]) is int and 0 < parsed["seq"] < 1 << 53
        is_event = type(parsed["ts"]) is str and type(parsed["event"]["type"]) is str
    except (ValueError, LookupError, TypeError):
        return None
    return parsed if is_numbered and is_event else None


def _drop_misnumbered(scan: Scan) -> None:
    """Leave out events that are there twice or out of order, and note which are missing."""
    seqs = [record["seq"] for record in scan.records]
    if seqs == list(range(1, len(seqs) + 1)):
        return
    kept: list[int] = []
    last = 0
    for place, (seq, following) in enumerate(zip(seqs, [*seqs[1:], math.inf], strict=True)):
        # A jump is believed only when the next event goes on from there: one wrong number must
        # not hide all the events after it.
        if seq != last + 1 and not last < seq < following:
            scan.pass_over(f"event {seq} is there twice or out of order; left out", 1)
            continue
        if seq > last + 1:
            scan.pass_over(f"events {last + 1} to {seq - 1} are missing", seq - last)
        kept.append(place)
        last = seq
    scan.records = [scan.records[place] for place in kept]
    scan.starts = array("Q", [scan.starts[place] for place in kept])
