"""Branches, tags, the stash and HEAD of a repository, as git tells them. Raises `ToolError`."""

from __future__ import annotations

import re

from oh_daemon.contract.git import StashEntry
from oh_daemon.core.plain_text import well_formed
from oh_daemon.sandbox.git_process import Git

HEAD = "HEAD"
STASH = "refs/stash"
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/(heads|tags)/[^\s\x00-\x1f\x7f~^:?*\[\\\ud800-\udfff]+")
"""A name that git allows, and that fits into a log."""


def is_object(text: str) -> bool:
    """Return whether it is the full name of an object."""
    return _OBJECT.fullmatch(text) is not None


def refs_of(git: Git) -> dict[str, str]:
    """Return the branches and tags, without those that only lead to others."""
    rows = git.rows("for-each-ref", "--format=%(objectname) %(refname) %(symref)", *_OURS)
    parts = [row.split(" ") for row in rows]
    return {
        part[1]: part[0]
        for part in parts
        if part[2:] == [""] and is_object(part[0]) and _REF.fullmatch(part[1])
    }


_OURS = ("refs/heads/", "refs/tags/")


def head_of(git: Git, *, peeled: bool = False) -> str | None:
    """Return the branch that HEAD is on, else its commit; `peeled` always returns the commit."""
    if not peeled:
        answer = git.ask("symbolic-ref", "-q", HEAD)
        ref = answer.output.decode("utf-8", "surrogateescape").removesuffix("\n")
        if not answer.exit_code:
            return ref if _REF.fullmatch(ref) else None
    answer = git.ask("rev-parse", "--verify", "-q", HEAD)
    commit = answer.output.decode("ascii", "replace").removesuffix("\n")
    return commit if is_object(commit) else None


def stash_of(git: Git) -> tuple[StashEntry, ...]:
    """Return the entries of the stash, the newest first."""
    if git.ask("rev-parse", "--verify", "-q", STASH).exit_code:
        return ()
    # rev-list knows no messages of reflogs.
    words = ("log", "--walk-reflogs", "--no-show-signature", "--no-patch", "--format=%H %gs")
    parts = [row.partition(" ") for row in git.rows(*words, STASH, "--")]
    return tuple(
        StashEntry(commit=commit, message=well_formed(message))
        for commit, _, message in parts
        if is_object(commit)
    )
