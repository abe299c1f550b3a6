"""Makes text fit for every reader: not too long, and without halves of characters."""

from __future__ import annotations


def shorten(text: str, limit: int) -> str:
    """Cut the middle out of a text of more than `limit` characters, and say how many were cut."""
    cut = len(text) - limit
    if cut <= 0:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{cut:,} characters cut]\n{text[len(text) - half :]}"


def first_line(text: str) -> str:
    """Return the first line that is not blank, stripped."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def clipped(line: str, limit: int) -> str:
    """Return the start of a line, at most `limit` characters including the mark of the cut."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def well_formed(text: str) -> str:
    """Return the text with U+FFFD for each lone surrogate, which is not valid Unicode."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
