"""Rates how risky a shell command is: walks its syntax tree and rates every command in it.

`consent` decides whether to ask somebody. Invariant: code that is not understood is rated high,
nothing around a command makes it look safer than it is alone, and only what is plain is low.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from oh_daemon.common.plain_text import is_hidden
from oh_daemon.features.risk.commands import Finding
from oh_daemon.features.risk.script import rate_code
from oh_daemon.features.risk.short_list import why_not_plain
from oh_daemon.kernel.approval_requests import RISK_ORDER
from oh_daemon.protocol.items import Risk
from oh_daemon.workspace.path_classes import UNKNOWN, UNSEEN, Disk, RatingScope

_MAX_CHARS = 16_384
"""The parser needs seconds for longer texts that are no script, and no thread runs meanwhile."""


class Rating(NamedTuple):
    """The highest risk in a command, and all reasons for a risk, the worst first, each once."""

    risk: Risk
    reasons: tuple[str, ...]
    scripts: tuple[str, ...] = ()
    """Absolute paths of the files that it runs; their content is part of what it does.

    They are programs and scripts that the command names, and programs that `PATH` finds in the
    workspace. Files that a script loads, and programs of the system, are not among them."""
    is_bound: bool = False
    """Whether it runs no other files: false for `make` and `pytest`, for a program, script or
    option that only the shell knows, as in `$(…)`, and whatever else is not understood."""
    segments: tuple[tuple[str, ...], ...] = ((UNKNOWN,),)
    """Every command in it, as its words; also risky redirects, and `&` for the background."""
    only_reads: bool = False
    """Whether it seems to do nothing but read, no secrets and no whole folders.

    This is read from its text, and bash may read the text differently: only what the kernel keeps
    from writing may run for this."""


def rate_command(
    command: str,
    folders: Sequence[Path | str],
    cwd: Path | str | None = None,
    disk: Disk = UNSEEN,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Rating:
    """Rate a command for bash that starts in `cwd`, by default the first folder. Never raises.

    `variables` are those of a new shell, such as `{"OH_PROJECT_DIR": "/home/u/project"}`. Only
    commands of the list in `short_list` are low, so none is without a look at `disk`.
    """
    if len(command) > _MAX_CHARS:
        return Rating("high", (f"it has more than {_MAX_CHARS:,} characters",))
    misleading_char = next(
        (char for char in command if char not in "\n\t" and _misleads(char)), None
    )
    if misleading_char is not None:
        return Rating("high", (f"it holds the misleading character U+{ord(misleading_char):04X}",))
    places = tuple(str(folder).rstrip("/") for folder in folders)
    start = str(cwd) if cwd is not None else next(iter(places), None)
    scope = RatingScope(places, start, disk, variables)
    try:
        rating = _summarize(list(rate_code(command, scope)))
        reason = why_not_plain(command, scope) if rating.only_reads else None
    # A wrong rating lets a command run unasked: whatever goes wrong here must ask a person.
    except Exception as exc:  # noqa: BLE001
        return Rating("high", (f"rating it stopped with {type(exc).__name__}",))
    return rating._replace(risk="medium", reasons=(reason,)) if reason else rating


def _summarize(findings: list[Finding]) -> Rating:
    effects = [finding.effect for finding in findings]
    if "fetch" in effects and {"run", "unknown"} & {*effects[effects.index("fetch") :]}:
        findings.append(Finding("high", "it runs code after it fetched something"))
    worst = max((Finding("low", ""), *findings), key=lambda found: RISK_ORDER[found.risk]).risk
    reasons = [found.reason for found in findings if found.risk == worst and found.reason]
    # A person must also read what else is risky, unless the same program is named for worse.
    commands = {reason.partition(" ")[0] for reason in reasons} - {"it"}
    other_reasons = (
        found.reason for found in findings if "low" != found.risk != worst and found.reason
    )
    reasons += [reason for reason in other_reasons if reason.partition(" ")[0] not in commands]
    scripts = filter(None, (finding.script for finding in findings))
    segments = filter(None, (finding.words for finding in findings))
    return Rating(
        worst,
        tuple(dict.fromkeys(reasons)),
        tuple(dict.fromkeys(scripts)),
        segments=tuple(dict.fromkeys(segments)),
        is_bound=all(map(_is_bound, findings)),
        only_reads=worst == "low",
    )


def _is_bound(finding: Finding) -> bool:
    return finding.is_bound and finding.words != (UNKNOWN,)


def _misleads(char: str) -> bool:
    """Return whether a reader would not see it, or take it for punctuation of the shell."""
    plain = unicodedata.normalize("NFKC", char)
    looks_ascii = not char.isascii() and plain.isascii() and not re.fullmatch(r"[\w\s]+", plain)
    return looks_ascii or is_hidden(char)
