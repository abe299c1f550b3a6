"""Parts of a text for the model: cut to a size, around a place, where it probably meant. Pure.

All texts here have LF line ends.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter

MAX_SHOWN_BYTES = 32 << 10
_MAX_NEAREST_LINES = 20_000
_MAX_SEARCHED_CHARS = 4 << 20
_LIKE = 0.6
"""Share of the words of a text that a line must have to be like it."""
_AROUND = 20
_MAX_LINE_CHARS = 1_000
_MAX_AROUND_BYTES = 8 << 10
_WORD = re.compile(r"\w+|[^\w\s]")


def line_of(text: str, offset: int) -> int:
    """Return the one-based number of the line that holds `offset`; `text` has LF line ends."""
    return text.count("\n", 0, offset) + 1


def cap_text(
    text: str, what: str, limit_bytes: int = MAX_SHOWN_BYTES, size: str | None = None
) -> str:
    """Cut the text to `limit_bytes` of UTF-8 at a line end, with a last line that says so.

    `size` describes the whole, where this text is not all of it.
    """
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit_bytes:
        return text
    head = raw[: limit_bytes - 100].decode("utf-8", "ignore")
    head = head[: head.rfind("\n") + 1] or head
    size = size or f"{len(raw) - len(head.encode()):,} bytes more"
    return f"{head.rstrip()}\n[{what} is cut here: {size}]\n"


def around(text: str, line: int) -> str:
    """Return the numbered lines around `line`, which counts from 1, and which ones they are."""
    lines = text.removesuffix("\n").split("\n")
    if not text:
        return "The file is empty."
    first = max(1, min(line, len(lines)) - _AROUND)
    last = min(len(lines), max(line, 1) + _AROUND)
    rows = "".join(f"{n:>6}\t{_shown_line(lines[n - 1])}\n" for n in range(first, last + 1))
    which = f"lines {first}-{last} of {len(lines)}"
    return f"These are {which}:\n{cap_text(rows, 'this', _MAX_AROUND_BYTES)}"


def _shown_line(line: str) -> str:
    # Of half a secret, nobody would see that it is one.
    return line if len(line) <= _MAX_LINE_CHARS else f"[a line of {len(line):,} characters]"


def nearest(text: str, old: str) -> str:
    """Return a hint about what the model probably meant; it is never applied."""
    bare = re.sub(r"(?m)^ *\d+\t", "", old)
    if bare != old and bare in text:
        return "It would be without the line numbers: those belong to the view, not to the file."
    place = _but_for_blanks(text, old)
    if place is not None and old not in text:
        first, last = place
        return (
            f"Lines {first}-{last} differ from it only in whitespace;"
            f" the file has:\n{_lines(text, first, last)}"
        )
    first = place[0] if place is not None else _most_like(text, old)
    if first is None:
        return "No line is like it; view the file."
    last = min(first + old.strip("\n").count("\n"), text.removesuffix("\n").count("\n") + 1)
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"The nearest is {where}:\n{_lines(text, first, last)}"


def place_of(text: str, old: str) -> int:
    """Return the line, from 1, where `old` is or most probably was meant; 1 if none is like it."""
    if old in text:
        return line_of(text, text.index(old))
    place = _but_for_blanks(text, old)
    return place[0] if place is not None else _most_like(text, old) or 1


def covers_a_line(text: str, start: int, end: int) -> bool:
    """Return whether this part of a text holds at least one whole line that is not blank."""
    if start and text[start - 1] != "\n":
        start = text.find("\n", start, end) + 1 or end
    if end < len(text) and text[end - 1] != "\n" and text[end] != "\n":
        end = text.rfind("\n", start, end)
    return bool(text[start:end].strip()) if end > start else False


def _lines(text: str, first: int, last: int) -> str:
    return cap_text("\n".join(text.split("\n")[first - 1 : last]), "this", 2048)


def _but_for_blanks(text: str, old: str) -> tuple[int, int] | None:
    """Return the first and the last line of what is `old` but for its white space."""
    words = old.split()
    if not words or len(text) > _MAX_SEARCHED_CHARS:
        return None
    # Blanks may also be missing between what is no part of a word.
    gap = {True: r"\s+", False: r"\s*"}
    pieces = [_WORD.findall(word) for word in words]
    pattern = ""
    for before, after in zip([None, *pieces], pieces, strict=False):
        if before is not None:
            is_between_words = bool(re.match(r"\w", before[-1]) and re.match(r"\w", after[0]))
            pattern += gap[is_between_words]
        pattern += r"\s*".join(map(re.escape, after))
    match = re.search(pattern, text)
    return (line_of(text, match.start()), line_of(text, match.end())) if match else None


def _most_like(text: str, old: str) -> int | None:
    """Return the line where `old` begins if its longest line is the one that is most like a line.

    A part of a line is like it when most of its words are there.
    """
    lines = [" ".join(line.split()) for line in text.split("\n")[:_MAX_NEAREST_LINES]]
    words = [" ".join(line.split()) for line in old.strip().split("\n")]
    longest = max(words, key=len)
    close = difflib.get_close_matches(longest, lines, 1, _LIKE)
    position = lines.index(close[0]) if close else _with_most_words(lines, longest)
    return None if position is None else max(position - words.index(longest), 0) + 1


def _with_most_words(lines: list[str], query: str) -> int | None:
    words = Counter(_WORD.findall(query))
    shares = [(words & Counter(_WORD.findall(line))).total() / words.total() for line in lines]
    best = max(range(len(lines)), key=shares.__getitem__)
    return best if shares[best] >= _LIKE else None
