"""Parses patches of several files as models write them (V4A) into changes of texts. Pure.

Lines must match exactly, white space included; nothing is shifted to make a hunk fit. Only the text
after `@@`, which says where to look and is never written, may be indented differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from typing import Literal

from msgspec import Struct

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.excerpts import line_of, nearest, place_of
from oh_daemon.workspace.text_changes import with_newlines

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MAX_LINES_NAMED = 20
_MOVE = re.compile(r"\*\*\* Move to: (.+)")


class PatchHunk(Struct, frozen=True):
    """Replaces the lines `old` by `new`, below the lines that `headers` name."""

    headers: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_end: bool


class Hunks(Struct, frozen=True):
    """Several hunks, applied all or none; each is found in the text as it is before any of them."""

    hunks: tuple[PatchHunk, ...]

    @property
    def is_anchored(self) -> bool:
        """Whether having read an older text will do, if the lines to replace are still there."""
        return all(hunk.old for hunk in self.hunks)

    def names_lines(self, _plain: str) -> bool:
        """Whether each hunk has a line, so that it says enough without a look at the file."""
        return all(any(map(str.strip, hunk.old)) for hunk in self.hunks)

    def place(self, plain: str) -> int:
        """Return the line of the first hunk that has no place, else of the first."""
        olds = ["\n".join(hunk.old or hunk.headers) for hunk in self.hunks]
        return place_of(plain, next((old for old in olds if plain.count(old) != 1), olds[0]))

    def edits(self, plain: str) -> list[TextEdit]:
        """Return the edits. Raises `ToolError` that says why, for each hunk that has no place."""
        lines = plain.removesuffix("\n").split("\n") if plain else []
        edits: list[TextEdit] = []
        problems: list[str] = []
        floor = 0
        for number, hunk in enumerate(self.hunks, 1):
            try:
                start = _place(hunk, lines, floor)
            except ToolError as exc:
                problems.append(f"hunk {number}: {exc.message}")
                continue
            floor = start + len(hunk.old)
            edits.append(_edit(hunk, start, plain, lines))
        edits.sort(key=lambda edit: (edit.start, edit.end))
        for first, second in pairwise(edits):
            if second.start < first.end:
                problems.append(f"two hunks change line {line_of(plain, second.start)}; join them")
        if problems:
            raise ToolError("\n".join(problems))
        return edits


class Section(Struct, frozen=True):
    """What a patch asks of one file."""

    op: Literal["Add", "Update", "Delete"]
    path: str
    text: str = ""
    """The content of a file to add."""
    hunks: Hunks = Hunks(())
    move_to: str | None = None


def parse_patch(text: str) -> tuple[Section, ...]:
    """Parse a patch. Raises `ToolError` that names the wrong line, or when the patch is cut off."""
    lines = with_newlines(text).strip("\n").split("\n")
    if lines[0].rstrip() != _BEGIN or lines[-1].rstrip() != _END:
        raise ToolError(f"a patch begins with the line {_BEGIN!r} and ends with {_END!r}")
    heads = [n for n, line in enumerate(lines) if _SECTION.fullmatch(line)]
    if heads[:1] != [1]:
        raise ToolError(
            "line 2 of the patch must be '*** Add File: PATH', '*** Update File: PATH'"
            " or '*** Delete File: PATH'"
        )
    ends = [*heads[1:], len(lines) - 1]
    return tuple(_section(lines, head, end) for head, end in zip(heads, ends, strict=True))


def _section(lines: Sequence[str], head: int, end: int) -> Section:
    match = _SECTION.fullmatch(lines[head])
    op, path = (match[1], match[2].strip()) if match else ("", "")
    body = _without_gap(list(enumerate(lines[head + 1 : end], head + 2)))
    match op:
        case "Add":
            return Section("Add", path, _added_text(body))
        case "Delete":
            for number, _ in body:
                raise _wrong(number, "nothing follows the name of a file to be deleted")
            return Section("Delete", path)
        case _:
            move = _MOVE.fullmatch(body[0][1]) if body else None
            hunks = Hunks(tuple(_hunks(body[1:] if move else body)))
            if not hunks.hunks and not move:
                raise _wrong(head + 1, f"nothing is said about what to change in {path!r}")
            return Section("Update", path, hunks=hunks, move_to=move[1].strip() if move else None)


def _added_text(body: Sequence[tuple[int, str]]) -> str:
    for number, line in body:
        if not line.startswith("+"):
            raise _wrong(number, "each line of a new file begins with '+'")
    return "".join(f"{line[1:]}\n" for _, line in body)


def _hunks(body: Sequence[tuple[int, str]]) -> Iterator[PatchHunk]:
    headers: list[str] = []
    lines: list[tuple[int, str]] = []
    for number, line in body:
        if line == "@@" or line.startswith("@@ "):
            if lines:
                yield _hunk(headers, lines)
                headers, lines = [], []
            headers += [line[3:]] if line[3:].strip() else []
        elif line[:1] in ("", " ", "+", "-") or (line == _END_OF_FILE and lines):
            lines.append((number, line))
        else:
            raise _wrong(number, f"{line[:80]!r} begins with none of ' ', '-', '+' and '@@'")
    if headers and not lines:
        raise _wrong(body[-1][0], "no lines follow the '@@'")
    if lines:
        yield _hunk(headers, lines)


def _hunk(headers: Sequence[str], numbered_lines: Sequence[tuple[int, str]]) -> PatchHunk:
    # Models leave out the space before an empty line.
    lines = [line or " " for _, line in _without_gap(numbered_lines)]
    at_end = lines[-1:] == [_END_OF_FILE]
    if at_end:
        lines.pop()
    if not lines or _END_OF_FILE in lines:
        raise _wrong(numbered_lines[0][0], f"no hunk; {_END_OF_FILE!r} only follows its last line")
    old = tuple(line[1:] for line in lines if line[0] != "+")
    new = tuple(line[1:] for line in lines if line[0] != "-")
    return PatchHunk(tuple(headers), old, new, at_end)


def _without_gap(body: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """Drop trailing lines without any sign: they only separate a part from the one below it."""
    n = len(body)
    while n and not body[n - 1][1]:
        n -= 1
    return body[:n]


def _wrong(number: int, what: str) -> ToolError:
    return ToolError(f"line {number} of the patch: {what}")


def _place(hunk: PatchHunk, lines: Sequence[str], floor: int) -> int:
    """Return the line, from 0, where the hunk begins; `floor` is where the previous hunk ends."""
    if not hunk.old:
        return _place_of_insertion(hunk, lines, floor)
    n = len(hunk.old)
    starts = _numbers_of(hunk.old[0], lines)
    places = [i for i in starts if tuple(lines[i : i + n]) == hunk.old]
    if hunk.at_end:
        places = [place for place in places if place + n == len(lines)]
    if not places:
        where = " at the end of" if hunk.at_end else " in"
        hint = nearest("\n".join(lines), "\n".join(hunk.old))
        raise ToolError(f"its lines are not{where} the file. {hint}")
    if hunk.headers:
        header = _header(hunk, lines, floor)
        if below := [place for place in places if place >= header]:
            return next((place for place in below if place >= floor), below[0])
        raise ToolError(f"its lines are only above '@@ {hunk.headers[-1]}', {_line_names(places)}")
    below = places if len(places) == 1 else [place for place in places if place >= floor > 0]
    if len(below) == 1:
        return below[0]
    raise ToolError(
        f"its lines are there {len(places)} times ({_line_names(places)}); give more lines around"
        " the place you mean, or name a line above it after '@@'"
    )


def _numbers_of(line: str, lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the lines that are the same, from 0."""
    number = -1
    with suppress(ValueError):
        while True:
            number = lines.index(line, number + 1)
            yield number


def _place_of_insertion(hunk: PatchHunk, lines: Sequence[str], floor: int) -> int:
    if hunk.headers:
        return _header(hunk, lines, floor) + 1
    if hunk.at_end or not lines:
        return len(lines)
    raise ToolError(
        "it does not say where to add its lines; give lines around them, name the line above them"
        f" after '@@', or end it with {_END_OF_FILE!r}"
    )


def _header(hunk: PatchHunk, lines: Sequence[str], floor: int) -> int:
    """Return the line of the last header.

    The first header must be found once, or once below `floor`; each other is the next match below.
    """
    at = -1
    for header in hunk.headers:
        below = range(at + 1, len(lines))
        same = [i for i in below if lines[i] == header]
        same = same or [i for i in below if lines[i].strip() == header.strip()]
        if not same:
            hint = nearest("\n".join(lines), header)
            after = f" below line {at + 1}" if at >= 0 else ""
            raise ToolError(f"no line{after} is '@@ {header}' as a whole. {hint}")
        if at < 0 and len(same) > 1:
            later = [i for i in same if i >= floor > 0]
            if len(later) != 1:
                raise ToolError(
                    f"'@@ {header}' is there {len(same)} times ({_line_names(same)}); name a line"
                    " above it with an '@@' before this one"
                )
            same = later
        at = same[0]
    return at


def _line_names(places: Sequence[int]) -> str:
    more = ", …" if len(places) > _MAX_LINES_NAMED else ""
    return f"lines {', '.join(str(place + 1) for place in places[:_MAX_LINES_NAMED])}{more}"


def _edit(hunk: PatchHunk, start: int, plain: str, lines: Sequence[str]) -> TextEdit:
    """Return the edit of the lines that change; a last line without a newline stays without."""
    same = enumerate(zip(hunk.old, hunk.new, strict=False))
    n = next((n for n, (old, new) in same if old != new), min(len(hunk.old), len(hunk.new)))
    end = start + len(hunk.old)
    place = sum(map(len, islice(lines, start + n))) + start + n
    size = sum(len(line) + 1 for line in lines[start + n : end])
    first, last = (min(offset, len(plain)) for offset in (place, place + size))
    new = "".join(f"{line}\n" for line in hunk.new[n:])
    if end == len(lines) and plain and not plain.endswith("\n"):
        if not new:
            first = min(first, max(place - 1, 0))
        elif start + n == end:
            new = f"\n{new}"
        new = new.removesuffix("\n")
    return TextEdit(first, last, new)
