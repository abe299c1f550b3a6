"""Changes to a text as pure values: what the model asked for, turned into minimal edits.

A change finds its edits in the text with LF line ends; `locate_edits` maps them to the line ends
that the text has. Invariant: only the changed characters are touched. Writing is left to
`documents`.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.protocol.items import FileForm
from oh_daemon.workspace.excerpts import cap_text, covers_a_line, line_of, nearest, place_of
from oh_daemon.workspace.paths import printable

_MAX_DIFFERENCE_BYTES = 4096
_MAX_LINES_NAMED = 20
FindEdits = Callable[[str], Sequence[TextEdit]]
"""Finds ascending edits of a text with LF line ends."""
_LINE_END = re.compile(r"(\r\n|\n|\r)")
_LAST_LINE_END = re.compile(r"(\r\n|\n|\r)[^\r\n]*\Z")


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replaces `old`, which must be there exactly once, by `new`; with `every`, each `old`."""

    old: str
    new: str
    every: bool = False


@dataclass(frozen=True, slots=True)
class Replace:
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


@dataclass(frozen=True, slots=True)
class Insert:
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


@dataclass(frozen=True, slots=True)
class Create:
    """Create a file that does not exist; `form` is that of a file it restores."""

    text: str
    form: FileForm | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file that holds exactly this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Undo:
    """Take back the last edit that this conversation made to the file."""


Change = Replace | Insert | Create | Remove | Undo


def restoring(text: str, *, before: str, after: str) -> tuple[TextEdit, ...]:
    """Return edits back to `before`. Raises `EditRejectedError` when `text` is not `after`."""
    if text == after:
        return tuple(line_hunks(text, 0, before))
    if with_newlines(text) != with_newlines(after):
        raise EditRejectedError(
            "the text changed since that edit, and undo would lose the change; view it and"
            " edit it instead"
        )
    return locate_edits(text, lambda plain: [TextEdit(0, len(plain), with_newlines(before))])


def with_newlines(text: str) -> str:
    """Return the text with LF as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


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


def unified_diff(before: str, after: str, name: str) -> tuple[str, int, int]:
    """Return a diff to show (escaped and capped), and how many lines were added and removed."""
    old, new = (lines(with_newlines(text)) for text in (before, after))
    diff = list(difflib.unified_diff(old, new))[2:] if old and new else _whole_diff(old, new)
    n_added = sum(line.startswith("+") for line in diff)
    n_removed = sum(line.startswith("-") for line in diff)
    body = "".join(escape_text(line) if line.endswith("\n") else _open_ended(line) for line in diff)
    header = f"--- a/{printable(name)}\n+++ b/{printable(name)}\n" if diff else ""
    return cap_text(header + body, "the diff"), n_added, n_removed


def _whole_diff(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return what `difflib.unified_diff` returns where one has no line, without comparing."""
    if not (old or new):
        return []
    removed, added = ((f"1,{len(x)}" if len(x) > 1 else "1") if x else "0,0" for x in (old, new))
    lines = ("-" + line for line in old), ("+" + line for line in new)
    return [f"@@ -{removed} +{added} @@\n", *chain(*lines)]


def difference(expected: str, text: str, name: str) -> str | None:
    """Describe to the model how `text` differs from the one that its edit should have made."""
    if with_newlines(text) == with_newlines(expected):
        return None
    patch, _, _ = unified_diff(expected, text, name)
    return "A formatter or the user changed the text after your edit:\n" + cap_text(
        patch, "the difference", _MAX_DIFFERENCE_BYTES
    )


def _matches(plain: str, replacement: Replacement) -> list[TextEdit]:
    old, new = with_newlines(replacement.old), with_newlines(replacement.new)
    if not old:
        raise ToolError("old_text is empty; use insert to add text, or create for a new file")
    if old == new:
        raise ToolError("old_text and new_text are the same; nothing would change")
    starts = [match.start() for match in re.finditer(re.escape(old), plain)]
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


def locate_edits(text: str, find: FindEdits) -> tuple[TextEdit, ...]:
    """Return minimal edits of `text`, equivalent to those that `find` returns for its LF form."""
    plain = with_newlines(text)
    edits = find(plain)
    offsets = [match.start() - n for n, match in enumerate(re.finditer("\r\n", text))]
    located_edits: list[TextEdit] = []
    for edit in edits:
        for hunk in line_hunks(plain[edit.start : edit.end], edit.start, edit.text):
            part = _trim_edit(plain, hunk)
            start = part.start + bisect_left(offsets, part.start)
            end = part.end + bisect_left(offsets, part.end)
            located_edits.append(
                TextEdit(start, end, part.text.replace("\n", _eol_at(text, start)))
            )
    if with_newlines(apply_edits(text, located_edits)) != apply_edits(plain, edits):
        raise EditRejectedError(
            "a lone CR and a LF would become one line end; unify the line ends of this file first"
        )
    return tuple(located_edits)


def line_hunks(old: str, offset: int, new: str) -> Iterator[TextEdit]:
    """Yield edits for the lines that differ between `old`, which starts at `offset`, and `new`."""
    old_lines, new_lines = lines(old), lines(new)
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines)
    ends = [*accumulate(map(len, old_lines), initial=offset)]
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            yield TextEdit(ends[i1], ends[i2], "".join(new_lines[j1:j2]))


def _trim_edit(plain: str, edit: TextEdit) -> TextEdit:
    """Return the same edit without the characters at its ends that do not change."""
    old, new = plain[edit.start : edit.end], edit.text
    n_head = _n_common(old, new)
    old, new = old[n_head:], new[n_head:]
    n_tail = _n_common(old[::-1], new[::-1])
    return TextEdit(edit.start + n_head, edit.end - n_tail, new[: len(new) - n_tail])


def _n_common(one: str, two: str) -> int:
    """Return how many characters two texts have in common at their start."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(two)))


def _eol_at(text: str, offset: int) -> str:
    """Return the line end in use at `offset`: the next one, else the last one in the text."""
    match = _LINE_END.search(text, offset) or _LAST_LINE_END.search(text)
    return match[1] if match else "\n"


def _distance(first: str, second: str) -> int:
    """Return by how many lines two texts differ, ignoring white space."""
    one, two = (["".join(line.split()) for line in text.splitlines()] for text in (first, second))
    matcher = difflib.SequenceMatcher(None, one, two)
    return len(one) + len(two) - 2 * sum(block.size for block in matcher.get_matching_blocks())


def lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _open_ended(line: str) -> str:
    return f"{escape_text(line)}\n\\ No newline at end of file\n"


def escape_text(text: str) -> str:
    """Return a file's text as `summary` does, but keep white space that is usual in files."""
    if text.isascii() and text.rstrip("\n").isprintable():
        return text
    return printable(text, allowed="\n\t\u00a0\u3000")
