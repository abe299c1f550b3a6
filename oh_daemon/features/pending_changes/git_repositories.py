"""Which repositories changed names in a layer belong to, and what each name is to git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from oh_daemon.features.pending_changes.upper_layer import Change
from oh_daemon.system import git_lock
from oh_daemon.system.git import TASK_MARK, Repository, top_of
from oh_daemon.system.proc import mounts_below

_REFS = re.compile(r"(packed-refs|refs/(heads|tags)/.*|(logs/)?refs/stash|reftable/.*)")
_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "BISECT_LOG": "bisect",
}
"""What git has while an operation waits for the user, and the command whose `--quit` removes it."""
_BOOKKEEPING = re.compile(
    r"(index|HEAD|objects/(?!info/)|objects/info/(packs|commit-graphs?)|logs/|refs/(bisect|rewritten)"
    r"|refs/worktree|[A-Z]+_(HEAD|MSG|MODE|RR|EDITMSG|MERGE|AUTOSTASH|LOG|START|TERMS|NAMES|RUN"
    r"|EXPECTED_REV|ANCESTORS_OK|FIRST_PARENT)|MERGE_\w+|rebase-\w+|sequencer|rr-cache|branches"
    r"|sharedindex\.|next-index-|gc\.(pid|log)|info/refs|.*\.lock$|description$)"
)
"""What follows from what is compared, or is only of use while git runs."""
_OF_A_NEW_ONE = re.compile(r"(config$|hooks/.*\.sample$|info/exclude$)")
"""What `git init` puts there, as it does when a repository is made on the disk."""


class RepositoryNames(Struct, frozen=True):
    """The changed names of one repository, or of one of its linked work trees."""

    repository: Repository
    common: Path
    """Where refs and objects are: the same for all work trees of a repository."""
    changes: Mapping[str, Change]
    """By name below `git_dir`."""
    is_new: bool = False
    """Whether the disk has no repository there."""

    @property
    def has_refs(self) -> bool:
        is_common = self.common == self.repository.git_dir
        return is_common and any(map(_REFS.fullmatch, self.changes))

    @property
    def has_head(self) -> bool:
        return "HEAD" in self.changes

    @property
    def has_index(self) -> bool:
        return any(name == "index" or name.startswith("sharedindex.") for name in self.changes)

    @property
    def operation(self) -> str | None:
        """The unfinished operation of the sandbox that the disk does not have: a merge."""
        names = (name for name, change in self.changes.items() if change.after is not None)
        return next(iter(_operations(names)), None)

    @property
    def removed_names(self) -> Sequence[str]:
        """What the disk is in the middle of, and a command ended."""
        names = (name for name, change in self.changes.items() if change.after is None)
        return [*dict.fromkeys(_operations(names))]

    @property
    def other_names(self) -> list[str]:
        """What is neither compared nor of no interest: settings, hooks, refs of others."""
        patterns = (_REFS.fullmatch, _BOOKKEEPING.match, *([_OF_A_NEW_ONE.match] * self.is_new))
        files = (n for n, change in self.changes.items() if not _is_folder(change))
        return [name for name in files if not any(is_known(name) for is_known in patterns)]


def _is_folder(change: Change) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind == "folder"


def _operations(names: Iterable[str]) -> Iterable[str]:
    tops = (name.partition("/")[0] for name in names)
    return (_OPERATIONS[top] for top in tops if top in _OPERATIONS)


class RepositoryGrouping:
    """Sorts changed names of git's own files below an open folder by repository."""

    def __init__(self, folder: Path, changes: Sequence[Change]) -> None:
        self._folder = folder
        heads = {change.name for change in changes if change.name.name == "HEAD" and change.after}
        self._candidates = {name.parent for name in heads if name.parent.name == ".git"}
        """Names of repositories that commands made, if the disk has none there."""
        self._git_dirs: dict[Path, Path | None] = {}
        self.strays: list[Path] = []
        """What belongs to no repository that the disk has."""
        by_git_dir: dict[Path, dict[str, Change]] = {}
        for change in changes:
            git_dir = self._git_dir(change.name.parent)
            if git_dir is None:
                self.strays.append(change.name)
            else:
                name = (folder / change.name).relative_to(git_dir)
                by_git_dir.setdefault(git_dir, {})[str(name)] = change
        self._changes = by_git_dir
        self._new = {git_dir for git_dir in by_git_dir if not is_git_dir(git_dir)}

    @cached_property
    def groups(self) -> Mapping[Path, Sequence[RepositoryNames]]:
        """The names of each repository with its linked work trees, by `RepositoryNames.common`."""
        groups: dict[Path, list[RepositoryNames]] = {}
        for git_dir, changes in self._changes.items():
            repository, common = Repository(git_dir, _work_tree(git_dir)), _common(git_dir)
            names = RepositoryNames(repository, common, changes, git_dir in self._new)
            groups.setdefault(common, []).append(names)
        return groups

    def _git_dir(self, name: Path) -> Path | None:
        """Return the innermost folder that git keeps a repository in, on the disk if it can be."""
        if name not in self._git_dirs:
            git_path, is_top = self._folder / name, name == Path()
            is_new = name in self._candidates and not os.path.lexists(git_path)
            is_one = is_new or (is_git_dir(git_path) and git_path.resolve() == git_path)
            target = git_path if is_one else None
            self._git_dirs[name] = target or (None if is_top else self._git_dir(name.parent))
        return self._git_dirs[name]


def is_git_dir(place: Path) -> bool:
    """Return whether the disk has a repository, or a linked work tree's part of one, there."""
    has_more = (place / "objects").is_dir() or (place / "commondir").is_file()
    return (place / "HEAD").is_file() and has_more


def _common(git_dir: Path) -> Path:
    try:
        return (git_dir / _line_of(git_dir / "commondir")).resolve()
    except OSError:
        return git_dir


def _line_of(place: Path) -> str:
    return os.fsdecode(place.read_bytes()).strip()


def _work_tree(git_dir: Path) -> Path | None:
    """Return where a repository's files are, if its place says so; see gitrepository-layout(5)."""
    try:
        return Path(_line_of(git_dir / "gitdir")).parent
    except OSError:
        return git_dir.parent if git_dir.name == ".git" else None


class OutsideGitDirs(Struct, frozen=True):
    """Folders with git's own files of open folders that lie in none of them, the outermost ones.

    Linked work trees, submodules and folders of a larger repository have such folders.
    """

    layered: Sequence[Path]
    """Changes of commands there are planned as in a repository of the open folder."""
    fixed: Sequence[Path]
    """Commands can only read these."""


def git_dirs_outside(folders: Sequence[Path]) -> OutsideGitDirs:
    """Look at the disk, and return what an overlay has to show of git outside the open folders."""
    dirs: dict[Path, bool] = {}
    for folder in folders:
        if (git_dir := git_dir_of(folder)) is not None:
            common = _common(git_dir)
            is_fixed = not _belongs(folder, git_dir, common) or bool(mounts_below(common))
            dirs |= {place: dirs.get(place, False) or is_fixed for place in (common, git_dir)}
    outermost = [
        each
        for each in dirs
        if not any(map(each.is_relative_to, (*folders, *(dirs.keys() - {each}))))
    ]
    return OutsideGitDirs(
        layered=[each for each in outermost if not dirs[each]],
        fixed=[each for each in outermost if dirs[each]],
    )


def _belongs(folder: Path, git_dir: Path, common: Path) -> bool:
    """Return whether a repository knows the work tree that names it, and takes its commits.

    A `.git` file, a link or a `commondir` may have come with a download and name any repository.
    """
    top = top_of(folder)
    if top is None or not git_dir.is_relative_to(common) or (git_dir / TASK_MARK).exists():
        return False
    link = top / ".git"
    if not link.is_file():
        return not link.is_symlink()
    try:
        return Path(_line_of(git_dir / "gitdir")).resolve() == link
    except OSError:
        outer = git_dir_of(top.parent)  # A submodule has its own files in the outer repository's.
        return outer is not None and git_dir.is_relative_to(_common(outer))


def top_in(folder: Path, common: Path) -> Path | None:
    """Return the top of the work tree that holds a folder, if it is one of that repository."""
    git_dir = git_dir_of(folder)
    return top_of(folder) if git_dir is not None and _common(git_dir) == common else None


def drop_leftover_locks(folders: Sequence[Path]) -> None:
    """Unlock the repositories of open folders that a killed daemon left locked."""
    for git_dir in filter(None, map(git_dir_of, folders)):
        with suppress(OSError):
            git_lock.drop_leftover(git_dir)


def git_dir_of(folder: Path) -> Path | None:
    """Return where git keeps the index and HEAD of the work tree that holds a folder, or None."""
    top = top_of(folder)
    git_dir = _led_to(top / ".git") if top else None
    return git_dir if git_dir is not None and is_git_dir(git_dir) else None


def _led_to(place: Path) -> Path | None:
    try:
        if place.is_dir():
            return place.resolve()
        kind, _, target = _line_of(place).partition(": ")
        return (place.parent / target).resolve() if kind == "gitdir" else None
    except OSError:
        return None
