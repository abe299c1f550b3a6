r"""The lines in which two texts differ, for patches, counts, hunks and merges. Pure.

All texts here have LF line ends. Where the edits between two texts are known, only the lines that
they touch are compared: `TextDiff.of_edits("a\nb\n", [TextEdit(2, 3, "c")]).patch("x")`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from io import StringIO
from itertools import accumulate, pairwise, zip_longest
from operator import ne

from msgspec import Struct

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.protocol.items import Hunk
from oh_daemon.workspace.excerpts import MAX_SHOWN_BYTES, cap_text
from oh_daemon.workspace.paths import printable

_CONTEXT = 3
"""Lines around a change in a patch, as `diff -u` has them."""
_CHUNK_CHARS = 1 << 16
_MAX_COMPARISONS = 250_000
"""Pairs of lines, at most, for `SequenceMatcher`, which looks at equal ones again and again."""
_FEW = 0.1
"""Share of lines of a text that was changed in place, as by `sed`."""

Block = tuple[int, int, int, int]
"""Lines that differ: from, to in the old text; from, to in the new one."""


class TextDiff(Struct, frozen=True, dict=True):
    """The difference between two texts as edits of whole lines, ascending and never adjacent."""

    before: str
    edits: tuple[TextEdit, ...]

    @classmethod
    def between(cls, before: str, after: str) -> TextDiff:
        return cls(before, tuple(line_edits(before, after)))

    @classmethod
    def of_edits(cls, before: str, edits: Sequence[TextEdit]) -> TextDiff:
        """Compare only the lines that these ascending edits of `before` touch."""
        regions = _touched_lines(before, edits)
        return cls(before, tuple(edit for region in regions for edit in _shrunk(before, region)))

    @cached_property
    def added(self) -> int:
        """The number of lines."""
        return sum(count_lines(edit.text) for edit in self.edits)

    @cached_property
    def removed(self) -> int:
        return sum(count_lines(self.before[edit.start : edit.end]) for edit in self.edits)

    @cached_property
    def hunks(self) -> dict[Hunk, TextEdit]:
        """The edits by their line numbers, as clients name them."""
        return {
            Hunk(old_start=i1, old_lines=i2 - i1, new_start=j1, new_lines=j2 - j1): edit
            for edit, (i1, i2, j1, j2) in self._blocks()
        }

    def _blocks(self) -> Iterator[tuple[TextEdit, Block]]:
        position = line = moved_by = 0
        for edit in self.edits:
            line += self.before.count("\n", position, edit.start)
            n_old, n_new = count_lines(self.before[edit.start : edit.end]), count_lines(edit.text)
            yield edit, (line, line + n_old, line + moved_by, line + moved_by + n_new)
            position, line, moved_by = edit.end, line + n_old, moved_by + n_new - n_old

    def patch(self, name: str, limit_bytes: int = MAX_SHOWN_BYTES) -> str:
        """Return a unified diff to show, escaped and capped; empty if nothing differs."""
        rows: list[str] = []
        room = limit_bytes
        for sign, text in self._parts():
            if room < 0:
                break
            # A character has at least one byte, so these are more than can be shown.
            part = text[: room + 1]
            rows += [f"@@ {part} @@\n"] if sign == "@" else _marked(sign, part)
            room -= len(part)
        name = printable(name)
        header = f"--- a/{name}\n+++ b/{name}\n" if rows else ""
        counts = f"it is +{self.added:,} -{self.removed:,} lines"
        return cap_text(header + "".join(rows), "the diff", limit_bytes, counts)

    def _parts(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of the patch in groups, each with the sign of its lines."""
        group: list[tuple[TextEdit, Block]] = []
        for edit, block in self._blocks():
            if group and block[0] - group[-1][1][1] > 2 * _CONTEXT:
                yield from self._group_parts(group)
                group = []
            group.append((edit, block))
        if group:
            yield from self._group_parts(group)

    def _group_parts(self, group: Sequence[tuple[TextEdit, Block]]) -> Iterator[tuple[str, str]]:
        (first, (i1, _, j1, _)), (last, (_, i2, _, j2)) = group[0], group[-1]
        head = self.before[_lines_up(self.before, first.start) : first.start]
        tail = self.before[last.end : _lines_down(self.before, last.end)]
        n_head, n_tail = count_lines(head), count_lines(tail)
        yield "@", f"-{_span(i1 - n_head, i2 + n_tail)} +{_span(j1 - n_head, j2 + n_tail)}"
        yield " ", head
        position = first.start
        for edit, _ in group:
            yield " ", self.before[position : edit.start]
            yield "-", self.before[edit.start : edit.end]
            yield "+", edit.text
            position = edit.end
        yield " ", tail


def _lines_up(text: str, position: int) -> int:
    """Return where the lines of context above a line begin."""
    for _ in range(_CONTEXT):
        position = text.rfind("\n", 0, max(position - 1, 0)) + 1
    return position


def _lines_down(text: str, position: int) -> int:
    for _ in range(_CONTEXT):
        position = text.find("\n", position) + 1 or len(text)
    return position


def _span(start: int, end: int) -> str:
    """Return lines from 0 as `diff -u` writes them: "3", "3,2", or "2,0" below the second line."""
    n = end - start
    return f"{start + 1}" if n == 1 else f"{start + (n > 0)},{n}"


def _marked(sign: str, text: str) -> Iterator[str]:
    for line in lines_of(text):
        open_end = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
        yield f"{sign}{escape_text(line)}{open_end}"


def _touched_lines(before: str, edits: Sequence[TextEdit]) -> Iterator[TextEdit]:
    """Yield the edits grown to whole lines; those that touch are one."""
    start = end = position = 0
    pieces: list[str] = []
    for edit in edits:
        line = before.rfind("\n", 0, edit.start) + 1
        if pieces and line > end:
            yield TextEdit(start, end, "".join((*pieces, before[position:end])))
            pieces = []
        if not pieces:
            start = position = line
        pieces += before[position : edit.start], edit.text
        position = edit.end
        is_whole = next(filter(None, reversed(pieces)), "\n").endswith("\n")
        if is_whole and (position == 0 or before[position - 1] == "\n"):
            end = position
        else:
            end = before.find("\n", position) + 1 or len(before)
    if pieces:
        yield TextEdit(start, end, "".join((*pieces, before[position:end])))


def _shrunk(before: str, region: TextEdit) -> Iterator[TextEdit]:
    """Yield the edits of a region of whole lines for those lines that differ."""
    for edit in line_edits(before[region.start : region.end], region.text):
        yield TextEdit(region.start + edit.start, region.start + edit.end, edit.text)


def lines_of(text: str) -> list[str]:
    """Return the lines with their LF; unlike `str.splitlines`, no other character ends one."""
    return list(StringIO(text, newline="\n"))


def count_lines(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def escape_text(text: str) -> str:
    """Return a file's text as `summary` does, but keep white space that is usual in files."""
    if text.isascii() and text.rstrip("\n").isprintable():
        return text
    return printable(text, allowed="\n\t\u00a0\u3000")


def line_edits(old: str, new: str) -> Iterator[TextEdit]:
    """Yield edits of `old` for the lines that differ, ascending and never adjacent."""
    head, n_tail = _common_lines(old, new)
    old_part, new_part = old[head : len(old) - n_tail], new[head : len(new) - n_tail]
    if not (old_part and new_part):
        if old_part or new_part:
            yield TextEdit(head, head + len(old_part), new_part)
        return
    old_lines, new_lines = lines_of(old_part), lines_of(new_part)
    ends = [*accumulate(map(len, old_lines), initial=head)]
    for i1, i2, j1, j2 in _blocks(old_lines, new_lines):
        yield TextEdit(ends[i1], ends[i2], "".join(new_lines[j1:j2]))


def _common_lines(old: str, new: str) -> tuple[int, int]:
    """Return how many characters both texts have in common in whole lines at start and end."""
    n = n_common(old, new)
    if n == len(old) == len(new):
        return n, 0
    head = old.rfind("\n", 0, n) + 1
    n_tail = n_common_end(old[head:], new[head:])
    befores = (text[head : len(text) - n_tail][-1:] for text in (old, new))
    if all(char in {"", "\n"} for char in befores):
        return head, n_tail
    first_line_end = old.find("\n", len(old) - n_tail)
    return head, 0 if first_line_end < 0 else len(old) - first_line_end - 1


def n_common(one: str, two: str) -> int:
    """Return how many characters two texts have in common at their start."""
    n, size, limit = 0, _CHUNK_CHARS, min(len(one), len(two))
    while size:
        while n + size <= limit and one[n : n + size] == two[n : n + size]:
            n += size
        size //= 2
    return n


def n_common_end(one: str, two: str) -> int:
    """Return how many characters two texts have in common at their end."""
    n, size, limit = 0, _CHUNK_CHARS, min(len(one), len(two))
    n_one, n_two = len(one), len(two)
    while size:
        while n + size <= limit and (
            one[n_one - n - size : n_one - n] == two[n_two - n - size : n_two - n]
        ):
            n += size
        size //= 2
    return n


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    """Yield the lines that differ, at least one equal line between two blocks.

    Large texts take time in proportion to their lines: equal lines at equal places count first,
    then lines that both texts have once; what lies between is compared as small texts are.
    """
    if len(old) * len(new) <= _MAX_COMPARISONS:
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new).get_opcodes():
            if tag != "equal":
                yield i1, i2, j1, j2
        return
    for gap in _gaps(old, new):
        i1, i2, j1, j2 = block = _trimmed(old, new, gap)
        if i1 == i2 or j1 == j2 or block in {(i1, i1 + 1, j1, j1 + 1), (0, len(old), 0, len(new))}:
            yield from [block] if i1 < i2 or j1 < j2 else []
            continue
        for a1, a2, b1, b2 in _blocks(old[i1:i2], new[j1:j2]):
            yield i1 + a1, i1 + a2, j1 + b1, j1 + b2


def _trimmed(old: Sequence[str], new: Sequence[str], block: Block) -> Block:
    """Return the block without equal lines at its ends."""
    i1, i2, j1, j2 = block
    while i1 < i2 and j1 < j2 and old[i1] == new[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and old[i2 - 1] == new[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    return i1, i2, j1, j2


def _gaps(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    """Yield the lines between equal ones, or all lines if there are no clearly equal ones."""
    if len(old) == len(new):
        unlike = [n for n, is_unlike in enumerate(map(ne, old, new)) if is_unlike]
        if len(unlike) <= _FEW * len(old):
            starts = [n for n, last in zip(unlike, [-2, *unlike], strict=False) if n > last + 1]
            ends = [n + 1 for n, after in zip_longest(unlike, unlike[1:]) if after != n + 1]
            yield from ((i, j, i, j) for i, j in zip(starts, ends, strict=True))
            return
    singles = _singles(old) & _singles(new)
    places = {line: n for n, line in enumerate(new) if line in singles}
    anchors = _ascending([(n, places[line]) for n, line in enumerate(old) if line in singles])
    for (i, j), (next_i, next_j) in pairwise([(-1, -1), *anchors, (len(old), len(new))]):
        if next_i - i > 1 or next_j - j > 1:
            yield i + 1, next_i, j + 1, next_j


def _singles(lines: Iterable[str]) -> set[str]:
    return {line for line, n in Counter(lines).items() if n == 1}


def _ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest part of the pairs, which ascend on the left, that ascends on the right."""
    if all(one[1] < two[1] for one, two in pairwise(pairs)):
        return list(pairs)
    # Patience sorting: `tops[n]` is the least end of an ascending row of n + 1 pairs.
    tops: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for n, (_, right) in enumerate(pairs):
        length = bisect_left(tops, right)
        before.append(places[length - 1] if length else -1)
        tops[length : length + 1] = [right]
        places[length : length + 1] = [n]
    row: list[tuple[int, int]] = []
    n = places[-1]
    while n >= 0:
        row.append(pairs[n])
        n = before[n]
    return row[::-1]
