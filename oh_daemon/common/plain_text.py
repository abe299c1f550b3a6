"""Makes text and data fit for every reader: not too long or deep, and without half characters."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

_MAX_DEPTH = 100
"""A log line is nested a few levels around its data, and pydantic writes at most 255."""


OF_EMOJI = "\ufe0f\u200d"
"""Hidden characters inside many emoji: they stay in prose and are shown in commands."""


def _slice(text: str, start: int, end: int) -> str:
    return text[start:end]


def shorten(text: str, limit: int, part: Callable[[str, int, int], str] = _slice) -> str:
    """Cut the middle out of a text of more than `limit` characters, and say how many were cut.

    Where secrets are not masked yet, `part` has to be `Masker.part`.
    """
    length = len(text) - limit
    if length <= 0:
        return text
    half = limit // 2
    head, tail = part(text, 0, half), part(text, len(text) - half, len(text))
    return f"{head}\n[{length:,} characters cut]\n{tail}"


def ends(text: str, limit: int, note: str) -> str:
    """Cut the middle out of a text of more than `limit` characters, at line ends where it has some.

    The note says why; it and what was cut are not counted.
    """
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[len(text) - limit // 2 :]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    cut_note = f"cut: {len(head) + len(tail):,} of {len(text):,} characters shown"
    return f"{head.rstrip()}\n[{cut_note}; {note}]\n{tail}"


def join_names(names: Sequence[str], limit: int) -> str:
    """Return the first names and how many more there are: "a, b and 3 more"."""
    more = len(names) - limit
    first = ", ".join(names[:limit])
    return f"{first} and {more} more" if more > 0 else first


def unknown_text(kind: str) -> str:
    """Return the text in place of a part, item or subject of a later release: `(cube: this …)`."""
    return f"({kind}: this version cannot show it)"


def first_line(text: str) -> str:
    """Return the first line that is not blank, stripped."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def clip_line(line: str, limit: int) -> str:
    """Return the start of a line, at most `limit` characters including the mark of the cut."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def well_formed(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate, which is not valid Unicode."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_data(data: Any) -> Any:
    """Return the JSON data with all its texts well formed."""
    return json.loads(well_formed(json.dumps(data, ensure_ascii=False)))


def display_escaped(text: str, allowed: str = "") -> str:
    """Return the text with characters escaped that a reader would not see, or see elsewhere."""
    printable = "\n\t" + allowed
    return "".join(c if c in printable or not is_hidden(c) else _escape(c) for c in text)


def within_tag(tag: str, text: str) -> str:
    """Return the text so that it cannot end the tag it stands in, to go on as words of the user."""
    return re.sub(rf"<(?=\s*/\s*{tag})", "&lt;", text, flags=re.IGNORECASE)


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if char <= "\xff" else f"\\u{{{ord(char):x}}}"


def is_hidden(char: str) -> bool:
    """Return whether a reader would not see the character, or see it elsewhere."""
    if char.isascii():
        return not char.isprintable()
    invisible = char in "\u115f\u1160\u3164\uffa0\u2800\u034f" or "\ufe00" <= char <= "\ufe0f"
    return invisible or unicodedata.category(char)[0] in "CZ"


def is_deep(data: object) -> bool:
    """Return whether JSON data is nested too deeply for the log."""
    level = [data]
    for _ in range(_MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(data: object) -> Iterable[object]:
    match data:
        case dict():
            return cast("dict[str, Any]", data).values()
        case list():
            return cast("list[Any]", data)
        case _:
            return ()
