"""pygls' document and position codec, with LSP's line ends and LSP's rule for long columns.

This is the only module that imports pygls, which takes 0.3 s: import this module inside functions,
after `initialize` is answered.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from lsprotocol import types
from pygls.workspace import PositionCodec, ServerTextPosition, TextDocument

from oh_daemon.protocol.base import Position
from oh_daemon.workspace.line_diff import lines_of

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")


def split_lines(text: str) -> list[str]:
    r"""Return the lines with their ends. Unlike in str.splitlines, \f, \v, U+2028 end no line."""
    return _LINE.findall(text) if "\r" in text else lines_of(text)


class Codec(PositionCodec):
    """Converts columns in the negotiated encoding to code points."""

    def position_from_client_units(
        self, lines: Sequence[str], position: types.Position
    ) -> ServerTextPosition:
        """Clamp as LSP says: to right before the line end, or to the end of the text.

        pygls clamps a long column one short of the end, or between CR and LF.
        """
        if position.line >= len(lines):
            last_length = len(lines[-1]) if lines else 0
            return ServerTextPosition(max(len(lines) - 1, 0), last_length)
        line = lines[position.line].rstrip("\r\n")
        if line.isascii():
            return ServerTextPosition(position.line, min(position.character, len(line)))
        ends = list(accumulate(self.impl.code_units_for_char(char) for char in line))
        return ServerTextPosition(position.line, bisect_right(ends, position.character))


class _Text(TextDocument):
    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(split_lines(self.source))


def apply_changes(text: str, changes: Sequence[dict[str, Any]], encoding: str) -> str:
    """Return the text after `contentChanges`; a change without a range replaces everything."""
    document = _Text("", text, position_codec=Codec(encoding))
    for change in changes:
        if change.get("range") is None:
            change_event = types.TextDocumentContentChangeWholeDocument(text=change["text"])
            document.apply_change(change_event)
            continue
        start, end = (types.Position(**change["range"][side]) for side in ("start", "end"))
        span = types.Range(start, end)
        part = types.TextDocumentContentChangePartial(range=span, text=change["text"])
        document.apply_change(part)
    return document.source


class ClientOffsets:
    """Converts offsets in one text to the client's positions, and back.

    Implements `kernel.editor_ports.ClientOffsets`.
    """

    def __init__(self, text: str, encoding: str) -> None:
        self._text = text
        self._lines = split_lines(text) or [""]
        if self._lines[-1].endswith(("\r", "\n")):
            self._lines.append("")
        self._starts = [0, *accumulate(map(len, self._lines[:-1]))]
        self._codec = Codec(encoding)

    def position(self, offset: int) -> dict[str, int]:
        line = bisect_right(self._starts, offset) - 1
        place = ServerTextPosition(line, offset - self._starts[line])
        position = self._codec.position_to_client_units(self._lines, place)
        return {"line": position.line, "character": position.character}

    def offset(self, position: Position) -> int:
        lsp_position = types.Position(position.line, position.character)
        place = self._codec.position_from_client_units(self._lines, lsp_position)
        return self._starts[place.line] + place.character

    def is_inside_line_end(self, offset: int) -> bool:
        """Return whether the offset is between CR and LF, where no position can point."""
        return self._text[offset - 1 : offset + 1] == "\r\n"
