"""How risky a shell command is: walks its syntax tree and rates every command in it.

Rates only; who is asked is decided by `consent`. Invariant: what is not understood is high, and
nothing that stands around a command makes it look safer than it is alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from oh_daemon.contract.items import Risk
from oh_daemon.core.risk_commands import (
    ORDER,
    Finding,
    Scene,
    is_secret_name,
    rate_path,
    rate_variable,
    rate_words,
    worst,
)
from oh_daemon.core.risk_paths import UNKNOWN, Ground
from tree_sitter import Language, Node, Parser

_MAX_DEPTH = 60
"""Nesting, also of code in quotes; a person would not follow it further either."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command, redirect or assignment within a script."""

    text: str
    risk: Risk
    reason: str


@dataclass(frozen=True, slots=True)
class Rating:
    risk: Risk
    reasons: tuple[str, ...]
    """Why it is not less risky, each once."""
    segments: tuple[Segment, ...]


def rate_command(
    command: str, folders: Sequence[Path | str], cwd: Path | str | None = None
) -> Rating:
    """Rate a command for bash that starts in `cwd`, by default the first folder. Never raises."""
    hidden = _find_hidden(command)
    if hidden:
        return Rating("high", (hidden,), (Segment(command, "high", hidden),))
    places = tuple(str(folder).rstrip("/") for folder in folders)
    start = str(cwd) if cwd is not None else next(iter(places), None)
    script = _Script(Ground(places, frozenset([start])))
    try:
        script.rate_code(command)
    # A wrong rating lets a command run unasked: whatever goes wrong here must ask a person.
    except Exception as exc:  # noqa: BLE001
        script.add(command, Finding("high", f"rating it stopped with {type(exc).__name__}"))
    return script.rating()


def display_escaped(text: str) -> str:
    """The text with everything visible that a reader would not see or would see elsewhere."""
    return "".join(
        c if c in "\n\t" or not _is_hidden(c) else f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{{{ord(c):x}}}"
        for c in text
    )


def _is_hidden(char: str) -> bool:
    if char.isascii():
        return not char.isprintable()
    return unicodedata.category(char)[0] in "CZ" or char in "\u115f\u1160\u3164\uffa0\u2800\u034f" or "\ufe00" <= char <= "\ufe0f"


def _find_hidden(command: str) -> str | None:
    for char in command:
        if char in "\n\t":
            continue
        if _is_hidden(char):
            return f"it holds the hidden character U+{ord(char):04X}"
        if not char.isascii() and re.search(r"[^\w\s]", unicodedata.normalize("NFKC", char), re.ASCII) and unicodedata.normalize("NFKC", char).isascii():
            return f"it holds U+{ord(char):04X}, which looks like another character"
    return None
