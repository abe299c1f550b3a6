"""What programs do with their arguments: the effects there are, and the tables of who has which.

`programs.txt` says that `git push` sends and that `rg` reads folders; `effects` finds what fits a
command. `short_list.txt` has the same format. The tables are read once, as if they were code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from oh_daemon.protocol.items import Risk

Use = Literal["text", "read", "run", "write"]
"""What a program does with a path: nothing, reads it, runs or follows what is there, changes it."""

EFFECTS: dict[str, tuple[Risk, Use, str]] = {
    "text": ("low", "text", "changes no files"),
    "names": ("low", "text", "gives variables other values"),
    "read": ("low", "read", "only reads"),
    "search": ("low", "read", "only searches or filters"),
    "deep": ("medium", "read", "reads whole folders, with all that may be secret in them"),
    "ask": ("medium", "text", "asks a server or the system"),
    "start": ("medium", "read", "may start a program that a setting names"),
    "run": ("medium", "run", "may run code of the project or of its packages"),
    "change": ("medium", "run", "may change files, processes or the repository"),
    "write": ("medium", "write", "creates, changes or deletes files"),
    "unknown": ("medium", "write", "is not known"),
    "fetch": ("medium", "write", "fetches from the network"),
    "send": ("high", "read", "may send something to another machine, or change something there"),
    "cloud": ("high", "read", "may change something on another machine"),
    "lose": ("high", "read", "may delete or replace something for good"),
    "stop": ("high", "read", "may end processes"),
    "secret": ("high", "read", "may show secrets"),
    "system": ("high", "read", "may act outside the workspace, on the system, or with its rights"),
    "later": ("high", "read", "may decide what other commands do later"),
    "inline": ("high", "read", "may run code that the command contains or fetches"),
}
"""The effects of programs: the risk of each, what happens to paths, and what a sentence says."""

OPEN_ENDED = frozenset(
    """start run change unknown send cloud lose secret system later inline""".split()  # noqa: SIM905
)
"""Effects of programs that may run files which the command does not name.

`make` reads a makefile, `git commit` starts hooks, `terraform` and `psql` run scripts."""

CHANGES = frozenset(
    """create delete rm rmi remove update set put apply cp mv sync run start stop kill ssh exec push
    login load save commit import export attach prune swarm plugin install""".split()  # noqa: SIM905
)
"""Words that `*` never stands for in a phrase that makes an effect better."""


class ProgramPhrase(NamedTuple):
    """One phrase of a row, and the kind that stands before it."""

    kind: str
    words: tuple[str, ...]


def read_table(name: str) -> dict[str, list[ProgramPhrase]]:
    """Return the parts by program, or by `git ` and a command, from a table beside this module."""
    text = re.sub(
        r"^#.*\n", "", Path(__file__).with_name(name).read_text("utf-8"), flags=re.MULTILINE
    )
    programs, _, git_commands = text.partition("[git]\n")
    return {**_read_rows(programs), **_read_rows(git_commands, "git ")}


def _read_rows(rows: str, prefix: str = "") -> dict[str, list[ProgramPhrase]]:
    table: dict[str, list[ProgramPhrase]] = {}
    for names, text in re.findall(r"^(\S(?:.|\n )*?): +((?:.|\n )*)", rows, re.MULTILINE):
        parts = [part for each in text.split(";") for part in _phrases(each)]
        for name in names.split():
            table.setdefault(prefix + name, []).extend(parts)
    return table


def _phrases(part: str) -> Iterator[ProgramPhrase]:
    kind, *remaining = part.split(maxsplit=1)
    for phrase in remaining[0].split(", ") if remaining else [""]:
        yield from (ProgramPhrase(kind, tuple(each.split())) for each in _alternatives(phrase))


def _alternatives(phrase: str) -> list[str]:
    braces = re.search(r"\{([^{}]*)\}", phrase)
    # In a regular expression braces are its own.
    if braces is None or "~" in phrase:
        return [phrase]
    head, tail = phrase[: braces.start()], phrase[braces.end() :]
    return [
        alternative
        for each in braces[1].split(",")
        for alternative in _alternatives(head + each + tail)
    ]
