"""The index of a repository as rows of `git ls-files -s`: what differs, and making it so.

The file itself is never taken over: what a command wrote there goes through git's own checks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.sandbox.git_process import Git

Rows = frozenset[bytes]

_ROW = re.compile(rb"(100644|100755|120000|160000) ([0-9a-f]{40}|[0-9a-f]{64}) [0-3]\t[^\0]+")
_DEBUG = re.compile(rb"  ctime: .*?\tflags: ([0-9a-f]+)\n", re.DOTALL)
_INTENT_TO_ADD, _SKIP_WORKTREE = 1 << 29, 1 << 30
"""Flags that `git ls-files --debug` shows; see CE_INTENT_TO_ADD in git's read-cache-ll.h."""
_LITERAL = b":(top,literal)"
_MAX_NAMED_CHARS = 1 << 16
"""So much fits into a command line; of more paths, git lists all."""
_BEFORE, _AFTER, _TO_ADD, _SKIPPED = b"-", b"+", b"N", b"S"


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The rows of paths that differ."""

    before: Rows
    after: Rows
    to_add: frozenset[bytes] = frozenset()
    """Paths that are only meant to be added: their rows have no object."""
    skipped: frozenset[bytes] = frozenset()
    """Paths that are left out of the work tree."""

    @property
    def paths(self) -> frozenset[bytes]:
        return frozenset(map(path_of, self.before | self.after))

    @property
    def objects(self) -> set[str]:
        """Names of the files' contents that the new rows need."""
        rows = (row for row in self.after if path_of(row) not in self.to_add)
        return {row.split(b" ")[1].decode() for row in rows if not row.startswith(b"160000")}

    def encoded(self) -> bytes:
        marked = ((_BEFORE, self.before), (_AFTER, self.after))
        more = ((_TO_ADD, self.to_add), (_SKIPPED, self.skipped))
        return b"\0".join(sign + row for sign, rows in (*marked, *more) for row in sorted(rows))


def decoded(data: bytes) -> IndexChange:
    """Return what `IndexChange.encoded` wrote."""
    rows = data.split(b"\0")

    def of(sign: bytes) -> Rows:
        return frozenset(row[1:] for row in rows if row.startswith(sign))

    return IndexChange(of(_BEFORE), of(_AFTER), of(_TO_ADD), of(_SKIPPED))


def path_of(row: bytes) -> bytes:
    return row.partition(b"\t")[2]


def rows_of(git: Git) -> Rows:
    return frozenset(git.run("ls-files", "-s", "-z").split(b"\0")[:-1])


def rows_at(rows: Rows, paths: Iterable[bytes]) -> Rows:
    wanted = frozenset(paths)
    return frozenset(row for row in rows if path_of(row) in wanted)


def compared(disk: Git, view: Git) -> IndexChange | None:
    """Return what differs in the view; None if nothing does. Raises `ToolError`."""
    before, after = rows_of(disk), rows_of(view)
    if before == after:
        return None
    change = IndexChange(before - after, after - before)
    if not all(map(_ROW.fullmatch, change.after)):
        raise ToolError("the index has entries that cannot come back from the sandbox")
    # The paths, so that the rows of all stages of a path are on both sides.
    change = IndexChange(rows_at(before, change.paths), rows_at(after, change.paths))
    return _marked(change, view)


def _marked(change: IndexChange, view: Git) -> IndexChange:
    paths = [os.fsdecode(_LITERAL + path) for path in change.paths]
    some = ("--", *paths) if sum(map(len, paths)) < _MAX_NAMED_CHARS else ()
    parts = view.run("ls-files", "-s", "-z", "--debug", *some).split(b"\0")
    to_add: set[bytes] = set()
    skipped: set[bytes] = set()
    row = parts[0]
    for part in parts[1:]:
        found = _DEBUG.match(part)
        flags = int(found[1], 16) if found else 0
        if row in change.after:
            to_add |= {path_of(row)} if flags & _INTENT_TO_ADD else set()
            skipped |= {path_of(row)} if flags & _SKIP_WORKTREE else set()
        row = part[found.end() :] if found else b""
    return IndexChange(change.before, change.after, frozenset(to_add), frozenset(skipped))


def make_change(git: Git, index: Path, change: IndexChange) -> None:
    """Change an index file, a copy of the repository's. Raises `ToolError`."""
    own = Git(git.spawner, git.repository, {**git.variables, "GIT_INDEX_FILE": str(index)})
    some_row = next(iter(change.before | change.after))
    nothing = b"0 " + b"0" * len(some_row.split(b" ")[1]) + b"\t"
    gone = [nothing + path for path in sorted(change.paths)]
    there = sorted(row for row in change.after if path_of(row) not in change.to_add)
    own.run("update-index", "-z", "--index-info", stdin=_lines([*gone, *there]))
    if change.to_add:
        words = ("--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        literal = [_LITERAL + path for path in change.to_add]
        own.run("add", *words, stdin=_lines(literal))
    if change.skipped:
        own.run("update-index", "-z", "--skip-worktree", "--stdin", stdin=_lines(change.skipped))
    # Else each file would count as changed until somebody looked at it. What differs is no error.
    own.ask("update-index", "-q", "--refresh")


def _lines(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + b"\0" for row in rows)
