"""Rates how risky a shell command is: walks its syntax tree and rates every command in it.

`consent` decides whether to ask somebody. Invariant: code that is not understood is rated high,
and nothing around a command makes it look safer than it is alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from oh_daemon.contract.items import Risk
from oh_daemon.core.approval import RISK_ORDER
from oh_daemon.core.plain_text import is_hidden
from oh_daemon.core.risk_commands import Finding
from oh_daemon.core.risk_paths import UNKNOWN, Ground
from oh_daemon.core.risk_script import rate_code

_MAX_CHARS = 16_384
"""The parser needs seconds for longer texts that are no script, and no thread runs meanwhile."""


class Rating(NamedTuple):
    """The highest risk in a command, and the reasons for it, each once."""

    risk: Risk
    reasons: tuple[str, ...]
    scripts: tuple[str, ...] = ()
    """Files of the workspace that it runs; their content is part of what it does."""
    segments: tuple[tuple[str, ...], ...] = ((UNKNOWN,),)
    """Every command in it, as its words; also risky redirects, and `&` for the background."""


def rate_command(
    command: str,
    folders: Sequence[Path | str],
    cwd: Path | str | None = None,
    hides_repository: Callable[[str], bool] = lambda _: True,
) -> Rating:
    """Rate a command for bash that starts in `cwd`, by default the first folder. Never raises.

    `hides_repository` is that of `Ground`; without it no command of git is low.
    """
    if len(command) > _MAX_CHARS:
        return Rating("high", (f"it has more than {_MAX_CHARS:,} characters",))
    hidden = next((char for char in command if char not in "\n\t" and _misleads(char)), None)
    if hidden is not None:
        return Rating("high", (f"it holds the misleading character U+{ord(hidden):04X}",))
    places = tuple(str(folder).rstrip("/") for folder in folders)
    start = str(cwd) if cwd is not None else next(iter(places), None)
    try:
        findings = list(rate_code(command, Ground(places, start, hides_repository)))
    # A wrong rating lets a command run unasked: whatever goes wrong here must ask a person.
    except Exception as exc:  # noqa: BLE001
        return Rating("high", (f"rating it stopped with {type(exc).__name__}",))
    kinds = [finding.kind for finding in findings]
    if "fetch" in kinds and {"run", "unknown"} & {*kinds[kinds.index("fetch") :]}:
        findings.append(Finding("high", "it runs code after it fetched something"))
    worst = max((Finding("low", ""), *findings), key=lambda found: RISK_ORDER[found.risk]).risk
    reasons = (found.reason for found in findings if found.risk == worst and found.reason)
    scripts = filter(None, (finding.script for finding in findings))
    segments = filter(None, (finding.words for finding in findings))
    return Rating(
        worst,
        tuple(dict.fromkeys(reasons)),
        tuple(dict.fromkeys(scripts)),
        tuple(dict.fromkeys(segments)),
    )


def _misleads(char: str) -> bool:
    """Return whether a reader would not see it, or take it for punctuation of the shell."""
    plain = unicodedata.normalize("NFKC", char)
    looks_ascii = not char.isascii() and plain.isascii() and not re.fullmatch(r"[\w\s]+", plain)
    return looks_ascii or is_hidden(char)
