"""Reads the tables about programs: `programs` says what each does, `plain` what runs unasked.

Both have this one format; what kinds there are, and what words mean, is said where the rows are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# A row names programs, and after a colon come its parts, each with a kind and mostly with words:
#
#     gzip gunzip: write; read -l, -t
#     npm pnpm: run; send publish, {login,logout}; later config set; with --prefix=
#
# `;` stands between parts, `,` between phrases of one kind, and `{a,b}` makes two phrases, as in a
# shell. A line that begins with a space continues the row; several rows may name one program.


class Part(NamedTuple):
    """One phrase of a row, and the kind that stands before it."""

    kind: str
    words: tuple[str, ...]


def read_rows(rows: str, prefix: str = "") -> dict[str, list[Part]]:
    """Return the parts by program; `prefix` stands before each name, as `git ` before `log`."""
    table: dict[str, list[Part]] = {}
    for names, text in re.findall(r"^(\S(?:.|\n )*?): +((?:.|\n )*)", rows, re.MULTILINE):
        parts = [part for each in text.split(";") for part in _phrases(each)]
        for name in names.split():
            table.setdefault(prefix + name, []).extend(parts)
    return table


def _phrases(part: str) -> Iterator[Part]:
    kind, *rest = part.split(maxsplit=1)
    for phrase in rest[0].split(", ") if rest else [""]:
        yield from (Part(kind, tuple(each.split())) for each in _alternatives(phrase))


def _alternatives(phrase: str) -> list[str]:
    braces = re.search(r"\{([^{}]*)\}", phrase)
    # In a regular expression braces are its own.
    if braces is None or "~" in phrase:
        return [phrase]
    head, tail = phrase[: braces.start()], phrase[braces.end() :]
    return [whole for each in braces[1].split(",") for whole in _alternatives(head + each + tail)]
