"""Names, for people, what a trusted folder runs by itself: how many things, and which."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath
from urllib.parse import unquote

from oh_daemon.contract import plain
from oh_daemon.contract.approvals import TrustSubject
from oh_daemon.core.plain_text import clipped, first_line

_MAX_NAMED = 5
_MAX_ROWS = 10
_MAX_CHARS = 200
_WORDS = {"hook": "hook", "skillCommand": "skill command", "server": "MCP server"}


def counted(subject: TrustSubject) -> str:
    """Return how many of each kind there are, as in "2 hooks and 1 MCP server"."""
    kinds = [run.kind for run in subject.runs or ()]
    counts = [(kinds.count(kind), word) for kind, word in _WORDS.items()]
    parts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in counts if n]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def where(subject: TrustSubject) -> str:
    """Return how many there are and in which folder."""
    return f"{counted(subject)} of {PurePosixPath(unquote(subject.folder)).name}"


def gist(subject: TrustSubject) -> str:
    """Return the first few commands, in Markdown."""
    runs = subject.runs or ()
    named = [f"`{clipped(first_line(run.command), 80)}`" for run in runs[:_MAX_NAMED]]
    rest = len(runs) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")


def listing(subject: plain.TrustSubject) -> str:
    """Return a line for each: its kind, its command and its file; of many, only the first."""
    runs = subject.get("runs", ())
    rest = len(runs) - _MAX_ROWS
    return "\n".join([*islice(_rows(subject), _MAX_ROWS), *([f"… and {rest} more"] * (rest > 0))])


def _rows(subject: plain.TrustSubject) -> Iterator[str]:
    for run in subject.get("runs", ()):
        file = unquote(run["uri"].removeprefix(f"{subject['folder']}/").removeprefix("file://"))
        command = clipped(run["command"], _MAX_CHARS)
        yield f"{_WORDS.get(run['kind'], run['kind'])}: {command} ({file})"
