"""Translates places in code between the model (a name and a line) and language servers (a column).

Models count columns badly, so they give the name at a place. Invariant: no text of a file outside
the folders, or of one with secrets, is shown, wherever a server points.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

from oh_daemon.contract.base import Range
from oh_daemon.contract.errors import ToolError
from oh_daemon.core.editor_ports import LanguageServers
from oh_daemon.core.ports import Json
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import path_from_uri, real_path, shown
from oh_daemon.workspace.text_changes import escaped, with_newlines

_MAX_LINE_CHARS = 200
_MAX_LINES_NAMED = 10


class CodePlaces:
    """Used for a single call, since it caches the texts that it reads."""

    def __init__(self, documents: Documents, servers: LanguageServers) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._servers = servers
        self._texts: dict[str, str | None] = {}

    def find(self, args: Json) -> tuple[Path, Json]:
        """Return the file that the arguments name, and the position of `symbol` in it.

        Raises `ToolError`.
        """
        if "path" not in args or "symbol" not in args:
            raise ToolError("give path and symbol, the name as it stands in that file")
        path = self._folders.resolve(args["path"], writing=False)
        text = self._documents.look(path).text
        if text is None:
            raise ToolError(f"there is no file {self._folders.name(path)!r}; glob finds files")
        offset = offset_of(text, args["symbol"], args.get("line"))
        return self._folders.as_opened(path), self._servers.offsets(text).position(offset)

    def path(self, uri: str) -> Path | None:
        """Return the real path, if tools may show the file."""
        path = path_from_uri(uri)
        real = real_path(path) if path else None
        is_open = real is not None and self._folders.contains(real)
        return real if real and is_open and not self._folders.is_left_out(real) else None

    def name(self, uri: str) -> str:
        real = self.path(uri)
        return self._folders.name(real) if real else shown(path_from_uri(uri) or uri)

    def text(self, uri: str) -> str | None:
        """Return the newest text; None when it must not or cannot be read."""
        if uri not in self._texts:
            self._texts[uri] = None
            with suppress(ToolError):
                path = self.path(uri)
                self._texts[uri] = self._documents.look(path).text if path else None
        return self._texts[uri]

    def column(self, uri: str, span: Range) -> int:
        """Return the column where `span` starts, one-based, in characters."""
        text = self.text(uri)
        if text is None:
            return span.start.character + 1
        starts, offset = _starts(text), self._servers.offsets(text).offset(span.start)
        return offset - starts[bisect_right(starts, offset) - 1] + 1

    def render(self, uri: str, span: Range | None) -> str:
        """Return file, line number and the text of that line."""
        line = span.start.line if span else 0
        text = self.text(uri)
        if text is None:
            note = "" if self.path(uri) else " (outside the workspace)"
            return f"{self.name(uri)}:{line + 1}{note}"
        lines = with_newlines(text).split("\n")
        there = lines[line].strip()[:_MAX_LINE_CHARS] if line < len(lines) else ""
        return f"{self.name(uri)}:{line + 1}: {escaped(there)}"


def offset_of(text: str, symbol: str, line: int | None) -> int:
    """Return the offset of the symbol in this line (one-based), or of its first use without one.

    Whole words are preferred. For a dotted name it is the offset of the last part. Raises
    `ToolError` that names the lines that do have the symbol.
    """
    word = rf"(?<!\w){re.escape(symbol)}(?!\w)"
    found = list(re.finditer(word, text)) or list(re.finditer(re.escape(symbol), text))
    starts = _starts(text)
    last = len(symbol) - len(re.split(r"\W+(?=\w)", symbol)[-1])
    by_line: dict[int, int] = {}
    for match in found:
        by_line.setdefault(bisect_right(starts, match.start()), match.start() + last)
    if not symbol or not by_line:
        raise ToolError(f"{symbol!r} is not in the file; give a name as it stands there")
    if line is None:
        return min(by_line.values())
    if line not in by_line:
        lines = ", ".join(map(str, [*by_line][:_MAX_LINES_NAMED]))
        raise ToolError(f"{symbol!r} is not in line {line}; it is in line {lines}")
    return by_line[line]


def _starts(text: str) -> list[int]:
    """Return the offset of each line, as LSP counts lines."""
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
