"""Which names are ignored: the host's git says it, by the rules on the disk; caches always are."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.core.landing import CACHES
from oh_daemon.sandbox.git_process import run_git
from oh_daemon.workspace.spawner import Spawner

logger = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
_IGNORED = ("check-ignore", "-z", "--stdin")


def find_ignored(host: Spawner, folder: Path, names: Sequence[str]) -> Collection[str]:
    """Return those of some names below a folder that are ignored; a folder's name ends with "/".

    Without git or a repository only caches are. Each repository inside is asked for itself.
    """
    find_repository = repositories(folder)
    by_repository: dict[Path, list[str]] = {}
    found = {name for name in names if not CACHES.isdisjoint(name.split("/"))}
    for name in names:
        repository = find_repository(folder / name)
        if repository is not None:
            by_repository.setdefault(repository, []).append(name)
    # Absolute, so that no name looks like the magic of a pathspec.
    for repository, inside in by_repository.items():
        absolute = {os.fspath(folder / name) + "/" * name.endswith("/"): name for name in inside}
        found |= {
            absolute[told]
            for told in ask_git(host, repository, _IGNORED, [*absolute])
            if told in absolute
        }
    return found


def repositories(folder: Path) -> Callable[[Path], Path | None]:
    """Return what finds the repository on the disk that holds a path; None beyond links."""
    known: dict[Path, Path | None] = {}

    def find(path: Path) -> Path | None:
        passed: list[Path] = []
        found: Path | None = None
        for up in path.parents:
            if up in known:
                found = known[up]
                break
            passed.append(up)
            if (up / ".git").exists():
                found = up
                break
            if up != folder and up.is_relative_to(folder) and up.is_symlink():
                break
        known.update(dict.fromkeys(passed, found))
        return found

    return find


def ask_git(
    host: Spawner, repository: Path, words: Sequence[str], names: Sequence[str] = ()
) -> list[str]:
    """Return the names that git prints, given some on stdin; none if it cannot be asked."""
    asked = b"".join(os.fsencode(name) + b"\0" for name in names)
    try:
        told = run_git(host, *words, cwd=repository, stdin=asked, timeout_s=_TIMEOUT_S)
    except ToolError as exc:
        logger.warning("git says nothing about %s: %s", repository, exc)
        return []
    return os.fsdecode(told.output).split("\0")[:-1]
