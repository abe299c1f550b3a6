"""Finds words in the text of logs, and opens few of them: `search` beside a log says which.

It is a Bloom filter, two bits for every three bytes in a row of a word; a cache that holds no text,
goes on when the log has grown, and may be deleted. The words are then seen in the masked log.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from zlib import crc32

import orjson
from msgspec import Struct

from oh_daemon.protocol.errors import DaemonError
from oh_daemon.storage.log_scan import LOG_NAME, parse_line
from oh_daemon.system.private_files import read_private, replace_file

if TYPE_CHECKING:
    from oh_daemon.kernel.ports import Json

_NAME = "search"
_HEADER = struct.Struct("<4sQQ")
"""Its form, where in the log it ended, and how many bits follow."""
_FORM = b"ohs1"
_MIN_BITS = 1 << 10
_BITS_PER_GRAM = 8
"""A word of three letters that is nowhere then opens one log in thirty, a longer one hardly any."""
_FACTOR = 0x9E3779B1
"""Makes a second place of the first (Knuth, The Art of Computer Programming, 6.4)."""
_MAX_READ_BYTES = 8 << 20
_MAX_FILTER_BYTES = 16 << 20
_MAX_LINE_BYTES = 32 << 20
_SAID = ("text", "content", "command", "args", "entries", "summary", "title", "description", "note")
_NO_TEXT = frozenset({"data", "type", "mimeType"})
_MAX_LINE_CHARS = 160
_CHARS_BEFORE = 40


class IndexEntry(Struct):
    """What a process remembers of a log until that changes."""

    stamp: tuple[int, ...]
    """Its size first."""
    summary: Json | None = None
    filter: tuple[int, int] | None = None
    """The bits, and how many there are."""

    @property
    def size_bytes(self) -> int:
        return self.stamp[0]


def line_with(words: tuple[str, ...], entry: IndexEntry, log_name: str) -> str | None:
    """Return the line in this log that has most of the words; None if one is nowhere.

    The words are folded (`str.casefold`); each may be part of a longer one.
    """
    with suppress(OSError, DaemonError):
        entry.filter = entry.filter or _read_filter(Path(log_name).parent)
        bits, n_bits = entry.filter
        query_bits = _wanted_bits(words, n_bits)
        if bits & query_bits == query_bits:
            with read_private(Path(log_name)) as log:
                return _best_line(log, words)
    return None


@lru_cache(maxsize=64)
def _wanted_bits(words: tuple[str, ...], n_bits: int) -> int:
    return _bits_of(_grams(words), n_bits)


def _read_filter(folder: Path) -> tuple[int, int]:
    """Read the filter, brought up to the end of the log; a new one has room to grow threefold."""
    end, n_bits, bits = _stored_facts(folder)
    with read_private(folder / LOG_NAME) as log:
        size = log.seek(0, 2)
        if end == size and n_bits:
            return bits, n_bits
        is_new = end > size or not n_bits
        if not is_new:
            grams, end = _grams_after(log, end)
            bits |= _bits_of(grams, n_bits)
        if is_new or 3 * bits.bit_count() > n_bits:
            grams, end = _grams_after(log, 0)
            n_bits = max(_MIN_BITS, 1 << (_BITS_PER_GRAM * len(grams)).bit_length())
            bits = _bits_of(grams, n_bits)
    with suppress(OSError, DaemonError):
        header = _HEADER.pack(_FORM, end, n_bits)
        replace_file(folder / _NAME, header + bits.to_bytes(n_bits >> 3, "little"))
    return bits, n_bits


def _stored_facts(folder: Path) -> tuple[int, int, int]:
    """Return where the filter ended, its size and its bits; zeros if there is none of this form."""
    with suppress(OSError, DaemonError, struct.error):
        with read_private(folder / _NAME) as file:
            data = file.read(_MAX_FILTER_BYTES)
        form, end, n_bits = _HEADER.unpack_from(data)
        is_whole = len(data) == _HEADER.size + (n_bits >> 3) and n_bits.bit_count() == 1
        if form == _FORM and is_whole and n_bits >= _MIN_BITS:
            return end, n_bits, int.from_bytes(data[_HEADER.size :], "little")
    return 0, 0, 0


def _grams_after(log: BinaryIO, start: int) -> tuple[set[bytes], int]:
    """Return what the whole lines from `start` on contain, and where the last one ends."""
    log.seek(start)
    words: set[str] = set()
    for line in iter(partial(log.readline, _MAX_LINE_BYTES), b""):
        if not line.endswith(b"\n"):
            break
        start += len(line)
        for text in _texts_in(line):
            words.update(text.casefold().split())
    return _grams(words), start


def _grams(words: Iterable[str]) -> set[bytes]:
    grams = (word.encode() for word in words)
    return {word[at : at + 3] for word in grams for at in range(len(word) - 2)}


def _bits_of(grams: Iterable[bytes], n_bits: int) -> int:
    bits = bytearray(n_bits >> 3)
    for gram in grams:
        hash_value = crc32(gram)
        for at in (hash_value & (n_bits - 1), hash_value * _FACTOR >> 12 & (n_bits - 1)):
            bits[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(bits, "little")


def _best_line(log: BinaryIO, words: tuple[str, ...]) -> str | None:
    best, n_best, missing_words = "", 0, set(words)
    # Other letters have more forms in a log than their folded one.
    needles = [orjson.dumps(word)[1:-1] for word in words if word.isascii()]
    is_plain = len(needles) == len(words)
    # This alone tells most logs that are opened for nothing.
    if os.fstat(log.fileno()).st_size <= _MAX_READ_BYTES:
        text = log.read().lower()
        if any(needle not in text for needle in needles):
            return None
        log.seek(0)
    for raw in iter(partial(log.readline, _MAX_LINE_BYTES), b""):
        folded_raw = raw.lower()
        if is_plain and not any(needle in folded_raw for needle in needles):
            continue
        for line in chain.from_iterable(map(str.splitlines, _texts_in(raw))):
            folded_line = line.casefold()
            places = {word: at for word in words if (at := folded_line.find(word)) >= 0}
            missing_words.difference_update(places)
            if len(places) > n_best:
                best, n_best = _excerpt(line, min(places.values())), len(places)
        if n_best == len(words):
            break
    return None if missing_words else best


def _excerpt(line: str, at: int) -> str:
    start = max(0, at - _CHARS_BEFORE)
    text = " ".join(line[start : start + _MAX_LINE_CHARS].split())
    return f"{'…' * (start > 0)}{text}{'…' * (start + _MAX_LINE_CHARS < len(line))}"


def _texts_in(line: bytes) -> Iterator[str]:
    """Yield what the item in a line of a log says: messages, thoughts, calls and their results."""
    # Most lines hold other events, and parsing them would take most of the time.
    if b'"item.completed"' not in line:
        return
    record: Any = parse_line(line)
    item = record["event"].get("item") if record and "seq" in record else None
    if isinstance(item, dict):
        for name in _SAID:
            yield from _strings_in(item.get(name))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - a log may hold any item.


def _strings_in(value: Any) -> Iterator[str]:
    """`value` is any JSON."""
    match value:
        case str():
            yield value
        case list():
            for each in value:  # pyright: ignore[reportUnknownVariableType] - any JSON.
                yield from _strings_in(each)
        case dict():
            for name, each in value.items():  # pyright: ignore[reportUnknownVariableType] - as above.
                if name not in _NO_TEXT:
                    yield from _strings_in(each)
        case _:
            pass
