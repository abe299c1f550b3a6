"""Expands braces as bash does: `a{b,c}` becomes `ab` and `ac`, `{1..3}` three numbers.

Pure and lexical; the caller deals with quotes. Bash's own rules decide which braces are no list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_MAX_WORDS, _MAX_LISTS = 256, 20
_RANGE = re.compile(r"(?P<first>-?\d+|[A-Za-z])\.\.(?P<last>-?\d+|[A-Za-z])(\.\.(?P<step>-?\d+))?")


def expand_braces(text: str) -> list[str] | None:
    """Return the words that the text becomes, or None when they are too many to examine."""
    if text.count("{") > _MAX_LISTS:
        return None
    words = list(islice(_expanded(text), _MAX_WORDS + 1))
    return words if len(words) <= _MAX_WORDS else None


def _expanded(text: str) -> Iterator[str]:
    for opening in re.finditer(r"\{(?!(?<!.\{)\})", text):
        start = opening.start()
        end = _find(text, "}", start + 1)
        if end is not None:
            for middle in _alternatives(text[start + 1 : end]):
                for tail in _expanded(text[end + 1 :]):
                    yield text[:start] + middle + tail
            return
    yield text


def _alternatives(inside: str) -> Iterator[str]:
    """Yield what a list or range stands for; around anything else the braces stay."""
    if _find(inside, ",", 0) is None:
        yield from _range(inside) or _neither(inside)
        return
    start = 0
    while start <= len(inside):
        end = _find(inside, ",", start)
        end = len(inside) if end is None else end
        yield from _expanded(inside[start:end])
        start = end + 1


def _neither(inside: str) -> Iterator[str]:
    """Yield the readings of bash 5.3 and of older versions, where any comma removed the braces."""
    yield from ("{" + word + "}" for word in _expanded(inside))
    if "{" in inside:
        yield "{" + inside + "}"
        if "," in inside:
            yield from _expanded(inside)


def _find(text: str, wanted: str, start: int) -> int | None:
    """Return where the list's end or next comma is; a brace ends it only after a comma or `..`."""
    level, is_list = 0, wanted == ","
    for index in range(start, len(text)):
        char = text[index]
        if char == wanted and level == 0 and is_list:
            return index
        if char == "{":
            level += 1
        elif char == "}":
            level = max(level - 1, 0)
        elif level == 0 and (char == "," or re.match(r"\.\.[^}]", text[index:])):
            is_list = True
    return None


def _range(text: str) -> Iterator[str] | None:
    match = _RANGE.fullmatch(text)
    if match is None or match["first"].isalpha() != match["last"].isalpha():
        return None
    ends = (match["first"], match["last"])
    first, last = map(ord if ends[0].isalpha() else int, ends)
    step = abs(int(match["step"] or 1)) or 1
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if ends[0].isalpha():
        return map(chr, numbers)
    is_padded = any(re.match(r"-?0\d", end) for end in ends)
    width = max(map(len, ends)) if is_padded else 0
    return (f"{number:0{width}}" for number in numbers)
