"""What a command changed in a repository, in words for the user and the model.

They are made from the objects themselves, read by the host's git, and not from what a command says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.git import GitChange, RefMove, StashMove
from oh_daemon.core.plain_text import clipped
from oh_daemon.sandbox.git_index import IndexChange
from oh_daemon.sandbox.git_process import Git
from oh_daemon.workspace.paths import shown

_MAX_SUBJECT = 100
_MAX_NAMED = 3
_SHORT = 8
_BRANCH, _TAG = "refs/heads/", "refs/tags/"


@dataclass(frozen=True, slots=True)
class Words:
    """Of one repository, by a git that also sees the objects that came with the command."""

    git: Git
    uri: str
    where: str
    """What follows a branch's name, ` in libs/parser` for instance; empty for the usual one."""

    def changes(
        self, refs: Sequence[RefMove], stash: StashMove | None, index: IndexChange | None
    ) -> Iterator[GitChange]:
        for move in refs:
            fields = {"ref": move.ref, "before": move.before, "after": move.after}
            yield GitChange(repository=self.uri, title=self._title(move), **fields)
        for title in self._stash_titles(stash) if stash else ():
            yield GitChange(repository=self.uri, title=title, ref="refs/stash")
        if index is not None and not refs and stash is None:
            yield GitChange(
                repository=self.uri, title=f"what is staged{self.where}: {_named(index)}"
            )

    def new(self) -> GitChange:
        return GitChange(repository=self.uri, title=f"a new repository{self.where}")

    def _title(self, move: RefMove) -> str:
        name = shown(move.ref.removeprefix(_BRANCH).removeprefix(_TAG)) + self.where
        if move.ref == "HEAD":
            return self._head(move)
        if move.ref.startswith(_TAG):
            return f"{_verb(move)} tag {name}"
        if move.after is None:
            return f"delete branch {name}"
        if move.before is None:
            return f"new branch {name} at {self._commit(move.after)}"
        return self._moved(move.before, move.after, name)

    def _head(self, move: RefMove) -> str:
        before, after = move.before or "", move.after or ""
        if after.startswith("refs/"):
            return f"switch to {shown(after.removeprefix(_BRANCH))}{self.where}"
        if before.startswith("refs/"):
            return f"switch to no branch{self.where}, at {self._commit(after)}"
        return self._moved(before, after, f"no branch{self.where}")

    def _moved(self, before: str, after: str, name: str) -> str:
        counted = self.git.rows("rev-list", "--count", "--left-right", f"{before}...{after}")
        n_lost, n_new = map(int, counted[0].split())
        subject = self._subject(after)
        if n_lost and n_new:
            return f"rewrite {name}, {_count(n_lost)} to {_count(n_new)}: {subject}"
        if n_lost:
            return f"take {name} back by {_count(n_lost)} to {self._commit(after)}"
        if n_new == 1:
            return f"commit on {name}: {subject}"
        return f"{_count(n_new)} on {name}, the last: {subject}"

    def _stash_titles(self, stash: StashMove) -> Iterator[str]:
        had = {entry.commit for entry in stash.before}
        has = {entry.commit for entry in stash.after}
        for verb, entries, others in (
            ("stash", stash.after, had),
            ("drop stash", stash.before, has),
        ):
            for entry in entries:
                if entry.commit not in others:
                    yield f"{verb}{self.where}: {clipped(shown(entry.message), _MAX_SUBJECT)}"

    def _commit(self, commit: str) -> str:
        return f"{commit[:_SHORT]}: {self._subject(commit)}"

    def _subject(self, commit: str) -> str:
        try:
            rows = self.git.rows("rev-list", "--max-count=1", "--format=%s", commit, "--")
        except ToolError:
            return ""  # It is no commit.
        return clipped(shown(rows[1]), _MAX_SUBJECT) if rows[1:] else ""


def _count(number: int) -> str:
    return f"{number} commit{'s' if number > 1 else ''}"


def _verb(move: RefMove) -> str:
    if move.after is None:
        return "delete"
    return "new" if move.before is None else "move"


def _named(index: IndexChange) -> str:
    paths = [shown(os.fsdecode(path)) for path in sorted(index.paths)]
    more = len(paths) - _MAX_NAMED
    return ", ".join(paths[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
