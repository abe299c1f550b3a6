"""Turns terminal output into text that is safe to show: cleaned, and kept within bounds.

Escapes and control characters are removed, and overwritten lines collapse. Of a long text, the head
and the tail stay in memory, and all of it (up to 100 MiB) goes to a file. People see the last MiB
of a terminal. Knows nothing of shells.
"""

from __future__ import annotations

import codecs
import re
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from oh_daemon.common.masking import MaskedStream, Masker

HEAD_BYTES = TAIL_BYTES = 16 << 10
_BEFORE_TAIL_BYTES = 8 << 10
"""Kept to mask the tail: a secret that reaches into it begins here. Long private keys have 7 KB."""
MAX_SPILL_BYTES = 100 << 20
MAX_SCROLLBACK_CHARS = 1 << 20
_PIECE_CHARS = 1 << 12
_MAX_HELD_CHARS = 64 << 10
"""No escape sequence and no progress bar is longer; anything longer is shown as text."""

# ECMA-48, in the 7-bit forms and the 8-bit ones: CSI; OSC; DCS, SOS, PM and APC; the others.
# Strings also end at a line break, or an unfinished one would swallow everything after it, and at
# the begin of another, or many unfinished ones would each be read to the end of the line.
# Each pattern begins with a set of characters, since `re` runs to the next of those ten times as
# fast as it tries a pattern at every character.
_BEGIN = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
_CSI = r"[0-?]*[ -/]*"
_OSC = r"[^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
_STRING = r"[^\x1b\x80-\x9f\n]*(?:\x1b\\|\x9c)"
_ESCAPE = re.compile(
    _BEGIN.pattern + rf"(?:(?<=\x1b)(?:\[{_CSI}[@-~]|\]{_OSC}|[PX^_]{_STRING}"
    rf"|[ -/]*[0-OQ-WYZ\\`a-~])|(?<=\x9b){_CSI}[@-~]|(?<=\x9d){_OSC}|(?<![\x1b\x9b\x9d]){_STRING})"
)
_OPEN_ESCAPE = re.compile(
    _BEGIN.pattern + rf"(?:(?<=\x1b)(?:\[{_CSI}|[\]PX^_][^\x07\x1b\x80-\x9f\n]*\x1b?|[ -/]*)"
    rf"|(?<=\x9b){_CSI}|(?<![\x1b\x9b])[^\x07\x1b\x80-\x9f\n]*\x1b?)\Z"
)
_TO_LINE_START = re.compile(r"[\x1b\x9b](?:(?<=\x9b)|(?<=\x1b)\[)[01]?G")
_OVERSTRIKE = re.compile(r"[^\n\x08]\x08")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
_NO_CONTROLS = dict.fromkeys([*range(0x09), *range(0x0B, 0x20), 0x7F])
_PLAIN = bytes([*range(0x20, 0x7F), 0x09, 0x0A])


class CleanText:
    """Turns chunks of bytes into text; a chunk may end within a character, an escape or a line."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        """The start of an escape, or of a line that is being overwritten."""

    def feed(self, data: bytes) -> str:
        if (
            not self._pending
            and not data.translate(None, _PLAIN)
            and not self._decoder.getstate()[0]
        ):
            return data.decode("ascii")
        return self._clean(self._pending + self._decoder.decode(data))

    def flush(self) -> str:
        """Return what is still held; the stream may go on."""
        text = self._clean(self._pending + self._decoder.decode(b"", final=True) + "\x1b")
        pending, self._pending = self._pending[:-1], ""
        return text + _without_controls(_collapse_line(pending))

    def _clean(self, text: str) -> str:
        text = text.replace("\r\n", "\n")
        cut_at, has_escapes = len(text), _may_escape(text)
        if has_escapes and (match := _OPEN_ESCAPE.search(text, max(0, text.rfind("\n")))):
            cut_at = match.start()
        # A line with a carriage return is not final before its line break, as the rest may be
        # overwritten. The text that was there when the return came has already been shown.
        line_start = text.rfind("\n", 0, cut_at) + 1
        if text.find("\r", line_start, cut_at) >= 0 or (
            has_escapes and _TO_LINE_START.search(text, line_start, cut_at)
        ):
            cut_at = line_start
        if len(text) - cut_at > _MAX_HELD_CHARS:
            cut_at = len(text)
        self._pending = text[cut_at:]
        text = _without_escapes(text[:cut_at])
        if "\r" in text:
            lines = [_collapse_line(line) if "\r" in line else line for line in text.split("\n")]
            text = "\n".join(lines)
        return _without_controls(_OVERSTRIKE.sub("", text) if "\b" in text else text)


def _may_escape(text: str) -> bool:
    return "\x1b" in text if text.isascii() else _BEGIN.search(text) is not None


def _without_escapes(text: str) -> str:
    """Remove escapes; what moves the cursor to the start of the line becomes a return."""
    return _ESCAPE.sub("", _TO_LINE_START.sub("\r", text)) if _may_escape(text) else text


def _without_controls(text: str) -> str:
    # `translate` takes a hundredth of the time, but of ASCII only.
    return text.translate(_NO_CONTROLS) if text.isascii() else _CONTROLS.sub("", text)


def _collapse_line(line: str) -> str:
    """Return the last state of a line that was overwritten, as a progress bar does."""
    parts = reversed(_without_escapes(line).split("\r"))
    return next((part for part in parts if part.strip()), "")


class Output(Struct, frozen=True):
    """A captured text: all of it in `head`, or its two ends in `head` and `tail` if it is long."""

    head: str = ""
    tail: str = ""
    before_tail: str = ""
    """The end of what was cut, needed to mask secrets that reach into the tail."""
    n_cut_bytes: int = 0
    spill: Path | None = None
    """The file with all of the text, or its first 100 MiB; the reader moves or removes it."""


class Capture:
    """Captures a text of any length in at most 64 KiB of memory. For one thread at a time."""

    def __init__(self, spill: Path) -> None:
        self._path = spill
        self._file: BinaryIO | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._n_bytes = 0
        self._can_spill = True

    def add(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        is_long = self._n_bytes + len(data) > HEAD_BYTES + TAIL_BYTES
        if is_long and self._can_spill and self._n_bytes < MAX_SPILL_BYTES:
            self._spill(data[: MAX_SPILL_BYTES - self._n_bytes])
        self._n_bytes += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[: -TAIL_BYTES - _BEFORE_TAIL_BYTES]

    def finish(self) -> Output:
        """End the capture and return what was captured."""
        if self._file:
            self._file.close()
        n_cut = self._n_bytes - HEAD_BYTES - TAIL_BYTES
        if n_cut <= 0:
            return Output((self._head + self._tail).decode("utf-8", "replace"))
        # A character that the cut splits counts as cut.
        head = self._head.decode("utf-8", "ignore")
        tail = self._tail[-TAIL_BYTES:].decode("utf-8", "ignore")
        is_whole = len(self._head) + len(self._tail) == self._n_bytes
        output = self._head + self._tail if is_whole else self._tail
        before = output[:-TAIL_BYTES][-_BEFORE_TAIL_BYTES:].decode("utf-8", "ignore")
        n_cut = self._n_bytes - len(head.encode()) - len(tail.encode())
        return Output(head, tail, before, n_cut, self._path if self._can_spill else None)

    def _spill(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._file = self._path.open("xb")
                self._file.write(self._head + self._tail)
            self._file.write(data)
        except OSError:
            # A full disk must not end the command: the head and the tail are still in memory.
            self._can_spill = False
            self._path.unlink(missing_ok=True)


class Scrollback:
    """The last text that a terminal showed, at least a MiB of it. Safe from any thread.

    Secrets are masked only on reading, so no time is spent on text that a flood pushes out.
    """

    def __init__(self, masker: Masker) -> None:
        self._lock = threading.Lock()
        self._masked_stream = MaskedStream(masker)
        self._text, self._begin, self._end = "", 0, 0
        """The masked text, and the offsets at which it begins and ends."""
        self._pending_pieces: deque[str] = deque()
        self._n_waiting = 0
        self._is_settled = True
        self._ends_line = True

    @property
    def end(self) -> int:
        """The offset up to which text has been masked or dropped; readers saw none beyond it."""
        return self._end

    @property
    def size_bytes(self) -> int:
        """The size of the text that is kept."""
        with self._lock:
            return sum(len(text.encode()) for text in (self._text, *self._pending_pieces))

    def add(self, text: str) -> None:
        with self._lock:
            self._add(text)

    def add_line(self, line: str) -> None:
        """Add a line, on a new line even when the last one has not ended."""
        with self._lock:
            self._add(line if self._ends_line else f"\n{line}")

    def settle(self) -> None:
        """Note that no more comes for now, so text that may begin a secret is shown as well."""
        with self._lock:
            self._is_settled = True

    def read(self, offset: int, limit: int) -> tuple[str, int]:
        """Return text from `offset`, or from the oldest character kept, and the offset after it."""
        with self._lock:
            self._mask()
            start = min(max(offset, self._begin), self._end)
            text = self._text[start - self._begin :][:limit]
            return text, start + len(text)

    def _add(self, text: str) -> None:
        if not text:
            return
        self._is_settled, self._ends_line = False, text.endswith("\n")
        # Pieces grow to a few KiB, since a program may write one character at a time.
        if self._pending_pieces and len(self._pending_pieces[-1]) < _PIECE_CHARS:
            self._pending_pieces[-1] += text
        else:
            self._pending_pieces.append(text)
        self._n_waiting += len(text)
        while self._n_waiting - len(self._pending_pieces[0]) > MAX_SCROLLBACK_CHARS:
            self._drop()

    def _drop(self) -> None:
        """Drop the oldest piece and all text before it, up to the next line break if it is near."""
        n_dropped = len(self._pending_pieces.popleft())
        _, line_break, rest = self._pending_pieces[0].partition("\n")
        if line_break:
            n_dropped += len(self._pending_pieces[0]) - len(rest)
            self._pending_pieces[0] = rest
        self._n_waiting -= n_dropped
        self._masked_stream.flush()
        self._begin = self._end = self._end + n_dropped
        self._text = ""

    def _mask(self) -> None:
        new = self._masked_stream.feed("".join(self._pending_pieces))
        if self._is_settled:
            new += self._masked_stream.flush()
        self._pending_pieces.clear()
        self._n_waiting = 0
        self._end += len(new)
        self._text = (self._text + new)[-MAX_SCROLLBACK_CHARS:]
        self._begin = self._end - len(self._text)
