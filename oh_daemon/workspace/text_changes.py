"""Changes to a text as pure values: what the model asked for, turned into minimal edits.

A change finds its edits in the text with LF line ends; `locate_edits` maps them to the line ends
that the text has. Invariant: only the changed characters are touched. Writing is left to
`documents`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.protocol.items import FileForm
from oh_daemon.workspace.excerpts import covers_a_line, line_of, nearest, place_of
from oh_daemon.workspace.line_diff import TextDiff, line_edits, n_common, n_common_end

_MAX_DIFFERENCE_BYTES = 4096
_MAX_LINES_NAMED = 20
FindEdits = Callable[[str], Sequence[TextEdit]]
"""Finds ascending edits of a text with LF line ends."""
_LINE_END = re.compile(r"(\r\n|\n)")
_LAST_LINE_END = re.compile(r"(\r\n|\n)[^\n]*\Z")


class Replacement(Struct, frozen=True):
    """Replaces `old`, which must be there exactly once, by `new`; with `every`, each `old`."""

    old: str
    new: str
    every: bool = False


class Replace(Struct, frozen=True):
    """Several replacements, made all or none; each is found in the text as it is before them."""

    replacements: tuple[Replacement, ...]

    @property
    def is_anchored(self) -> bool:
        """Whether having read an older text will do, if each `old` is still there once."""
        return not any(r.every for r in self.replacements)

    def names_lines(self, plain: str) -> bool:
        """Whether each `old` has a whole line, so that it says enough without a look at the file.

        Call it when `edits` has found them.
        """
        olds = [with_newlines(r.old) for r in self.replacements]
        starts = [plain.index(old) for old in olds]
        parts = zip(starts, olds, strict=True)
        return self.is_anchored and all(covers_a_line(plain, n, n + len(o)) for n, o in parts)

    def place(self, plain: str) -> int:
        """Return the line of the first `old` that has no place, else of the first."""
        olds = [with_newlines(r.old) for r in self.replacements]
        return place_of(plain, next((old for old in olds if plain.count(old) != 1), olds[0]))

    def edits(self, plain: str) -> list[TextEdit]:
        edits = sorted(self._find_edits(plain), key=lambda edit: edit.start)
        for first, second in pairwise(edits):
            if second.start < first.end:
                line = line_of(plain, second.start)
                raise ToolError(f"two edits overlap at line {line}; join them into one")
        return edits

    def _find_edits(self, plain: str) -> Iterator[TextEdit]:
        for n, replacement in enumerate(self.replacements):
            try:
                yield from _matches(plain, replacement)
            except ToolError as exc:
                which = f"edits[{n}]: " if len(self.replacements) > 1 else ""
                raise ToolError(f"{which}{exc}") from exc


class Insert(Struct, frozen=True):
    """Put `text` after line `line`; 0 is before the first."""

    line: int
    text: str

    is_anchored = False

    def names_lines(self, _plain: str) -> bool:
        return False

    def place(self, _plain: str) -> int:
        return self.line

    def edits(self, plain: str) -> list[TextEdit]:
        starts = [0, *(match.end() for match in re.finditer("\n", plain))]
        n_lines = len(starts) - (plain == "" or plain.endswith("\n"))
        if self.line > n_lines:
            raise ToolError(f"insert_line {self.line} is past the end; there are {n_lines} lines")
        new = with_newlines(self.text)
        if self.line == len(starts):  # After a last line without a newline.
            offset, new = len(plain), "\n" + new.removesuffix("\n")
        else:
            offset, new = starts[self.line], new if new.endswith("\n") else new + "\n"
        return [TextEdit(offset, offset, new)]


class Create(Struct, frozen=True):
    """Create a file that does not exist; `form` is that of a file it restores."""

    text: str
    form: FileForm | None = None


class Remove(Struct, frozen=True):
    """Remove a file that holds exactly this text."""

    text: str


class Undo(Struct, frozen=True):
    """Take back the last edit that this conversation made to the file."""


Change = Replace | Insert | Create | Remove | Undo


def restoring(text: str, *, before: str, after: str) -> LocatedEdits:
    """Return edits back to `before`. Raises `EditRejectedError` when `text` is not `after`."""
    if text == after:
        return LocatedEdits(tuple(line_edits(text, before)), before, diff_of(text, before))
    if with_newlines(text) != with_newlines(after):
        raise EditRejectedError(
            "the text changed since that edit, and undo would lose the change; view it and"
            " edit it instead"
        )
    return locate_edits(text, lambda plain: [TextEdit(0, len(plain), with_newlines(before))])


def with_newlines(text: str) -> str:
    """Return the text with LF as its only line end; a lone CR ends no line.

    So the numbers of lines are those of `grep`, `sed` and git.
    """
    return text.replace("\r\n", "\n") if "\r" in text else text


def as_editors_read(text: str) -> str:
    """Return the text with LF for every line end of LSP, to which a lone CR belongs."""
    return with_newlines(text).replace("\r", "\n")


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return the text after ascending `edits`, whose offsets all refer to the original text."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += text[position : edit.start], edit.text
        position = edit.end
    return "".join((*pieces, text[position:]))


def looks_applied(before: str, after: str, now: str, *, was_saved: bool) -> bool:
    """Return whether `now`, which differs from both, comes from `after` rather than `before`.

    White space does not count. A tie means that exactly these lines were changed again: by a
    formatter if they were saved, else by the user.
    """
    to_after, to_before = _distance(now, after), _distance(now, before)
    return to_after < to_before or (was_saved and to_after == to_before)


def diff_of(before: str | None, after: str | None) -> TextDiff:
    """Compare two texts by their LF forms; None is as empty."""
    return TextDiff.between(with_newlines(before or ""), with_newlines(after or ""))


def difference(expected: str, text: str, name: str) -> str | None:
    """Describe to the model how `text` differs from the one that its edit should have made."""
    if with_newlines(text) == with_newlines(expected):
        return None
    patch = diff_of(expected, text).patch(name, _MAX_DIFFERENCE_BYTES)
    return f"A formatter or the user changed the text after your edit:\n{patch}"


def _matches(plain: str, replacement: Replacement) -> list[TextEdit]:
    old, new = with_newlines(replacement.old), with_newlines(replacement.new)
    if not old:
        raise ToolError("old_text is empty; use insert to add text, or create for a new file")
    if old == new:
        raise ToolError("old_text and new_text are the same; nothing would change")
    starts = [*places_of(plain, old)]
    if not starts:
        raise ToolError(f"old_text is not in the file. {nearest(plain, old)}")
    if len(starts) > 1 and not replacement.every:
        lines = ", ".join(str(line_of(plain, start)) for start in starts[:_MAX_LINES_NAMED])
        more = ", …" if len(starts) > _MAX_LINES_NAMED else ""
        raise ToolError(
            f"old_text is there {len(starts)} times (lines {lines}{more});"
            " give more lines around the one you mean, or set replace_all"
        )
    return [TextEdit(start, start + len(old), new) for start in starts]


class LocatedEdits(Struct, frozen=True):
    """Minimal edits of a text with its own line ends, and the lines that they change."""

    edits: tuple[TextEdit, ...]
    after: str
    diff: TextDiff


def places_of(text: str, part: str) -> Iterator[int]:
    """Yield where the part begins, without overlaps; much faster than a pattern."""
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + len(part))


def locate_edits(text: str, find: FindEdits) -> LocatedEdits:
    """Return minimal edits of `text`, equivalent to those that `find` returns for its LF form."""
    plain = with_newlines(text)
    edits = find(plain)
    offsets = [start - n for n, start in enumerate(places_of(text, "\r\n"))]
    located_edits: list[TextEdit] = []
    for edit in edits:
        for hunk in line_edits(plain[edit.start : edit.end], edit.text):
            part = _trim_edit(plain, edit.start, hunk)
            start = part.start + bisect_left(offsets, part.start)
            end = part.end + bisect_left(offsets, part.end)
            located_edits.append(
                TextEdit(start, end, part.text.replace("\n", _eol_at(text, start)))
            )
    after = apply_edits(text, located_edits)
    if "\r" in after and with_newlines(after) != apply_edits(plain, edits):
        raise EditRejectedError(
            "a lone CR and a LF would become one line end; unify the line ends of this file first"
        )
    return LocatedEdits(tuple(located_edits), after, TextDiff.of_edits(plain, edits))


def _trim_edit(plain: str, offset: int, edit: TextEdit) -> TextEdit:
    """Return the same edit, moved by `offset`, without the characters that do not change."""
    start, end = offset + edit.start, offset + edit.end
    old, new = plain[start:end], edit.text
    n_head = n_common(old, new)
    old, new = old[n_head:], new[n_head:]
    n_tail = n_common_end(old, new)
    return TextEdit(start + n_head, end - n_tail, new[: len(new) - n_tail])


def _eol_at(text: str, offset: int) -> str:
    """Return the line end in use at `offset`: the next one, else the last one in the text."""
    match = _LINE_END.search(text, offset) or _LAST_LINE_END.search(text)
    return match[1] if match else "\n"


def _distance(first: str, second: str) -> int:
    """Return by how many lines two texts differ, ignoring white space."""
    one, two = (
        "".join("".join(line.split()) + "\n" for line in text.splitlines())
        for text in (first, second)
    )
    diff = TextDiff.between(one, two)
    return diff.added + diff.removed
