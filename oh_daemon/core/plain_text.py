"""Text as every reader can take it: not too long, and without halves of characters."""

from __future__ import annotations


def shorten(text: str, limit: int) -> str:
    """Head and tail of a text that has more than `limit` characters, and how many lie between."""
    cut = len(text) - limit
    if cut <= 0:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{cut:,} characters cut]\n{text[len(text) - half :]}"


def first_line(text: str) -> str:
    """The first line that has something in it."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def clipped(line: str, limit: int) -> str:
    """The beginning of a line, at most `limit` characters with the sign that it was cut."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def well_formed(text: str) -> str:
    """The same text; each lone half of a surrogate pair, which is no Unicode, is U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
