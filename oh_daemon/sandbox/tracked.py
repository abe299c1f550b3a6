"""Asks the host's git which names it tracks; asks again only when an index has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from oh_daemon.sandbox.ignored import ask_git, repositories
from oh_daemon.workspace.spawner import Spawner

_MAX_WORDS = 200
_TRACKED = ("--literal-pathspecs", "ls-files", "-z", "--")


class Tracked:
    """What git tracks below one open folder. Not for several threads at once."""

    def __init__(self, host: Spawner, folder: Path) -> None:
        self._host = host
        self._folder = folder
        self._known: dict[Path, tuple[object, frozenset[Path]]] = {}
        """By repository: what was asked of which state of its index, and the answer."""

    def among(self, paths: Collection[Path]) -> set[Path]:
        """Return those of some files, and what is tracked below those that are folders."""
        find: Callable[[Path], Path | None] = repositories(self._folder)
        by_repository: dict[Path, list[Path]] = {}
        for path in sorted(paths):
            if (repository := find(path)) is not None:
                by_repository.setdefault(repository, []).append(path)
        found: set[Path] = set()
        for repository, inside in by_repository.items():
            found |= self._in_repository(repository, inside)
        return found

    def _in_repository(self, repository: Path, paths: Sequence[Path]) -> frozenset[Path]:
        state = (_state_of_index(repository), tuple(paths))
        if (known := self._known.get(repository)) and known[0] == state and state[0]:
            return known[1]
        # Of more names than that, git is asked for all it has.
        names = [os.fspath(path.relative_to(repository)) for path in paths]
        words = (*_TRACKED, *names) if len(names) <= _MAX_WORDS else _TRACKED
        told = frozenset(repository / name for name in ask_git(self._host, repository, words))
        self._known[repository] = (state, told)
        return told


def _state_of_index(repository: Path) -> tuple[int, int] | None:
    """Return what changes with the index; None when it is not known where that lies."""
    git = repository / ".git"
    try:
        if git.is_file():  # A linked worktree, or a submodule; gitrepository-layout(5).
            git = repository / git.read_text("utf-8").removeprefix("gitdir:").strip()
        found = (git / "index").stat()
    except (OSError, UnicodeDecodeError):
        return None
    return found.st_ino, found.st_ctime_ns
