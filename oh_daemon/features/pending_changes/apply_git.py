"""Brings what commands did to repositories onto the disk: all that one command did, or nothing.

Objects go through git's checks, refs by compare-and-swap, the index under git's own lock. What has
landed already is left as it is, so a landing that was cut off can be done once more.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oh_daemon.features.pending_changes.git_repositories import is_git_dir
from oh_daemon.features.pending_changes.signing import NewObjects
from oh_daemon.protocol.checkpoints import RefMove, RepositoryChanges, StashMove
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system import git_lock
from oh_daemon.system.git import (
    HEAD,
    STASH,
    Git,
    IndexChange,
    Repository,
    decode_index,
    head_of,
    init,
    is_object,
    make_change,
    refs_of,
    rows_at,
    rows_of,
    stash_of,
)
from oh_daemon.system.spawner import Spawner

_REASON = "applied from the sandbox"


def apply_git(
    host: Spawner, read_blob: Callable[[str], bytes], repositories: Sequence[RepositoryChanges]
) -> Mapping[str, str]:
    """Apply the changes of one command; return the new names of what was signed, by the old ones.

    Raises `ToolError` if some of them do not fit any more, or cannot be signed. Then nothing has
    moved, but the new objects are there: their commits can be picked.
    """
    ones = [
        _RepositoryApplier(host, repository_changes, read_blob)
        for repository_changes in repositories
    ]
    signed_names: dict[str, str] = {}
    with ExitStack() as stack:
        for one in ones:
            one.import_objects()
        # No lock is held here: a person may be asked for a passphrase.
        for one in ones:
            signed_names |= one.sign()
        for one in ones:
            one.require_no_link_to(signed_names.keys())
        for one in ones:
            stack.enter_context(one.lock())
        for one in ones:
            one.require_unmoved()
        for one in ones:
            one.prepare_index()
        for one in ones:
            one.move()
    return signed_names


class _RepositoryApplier:
    """The landing of one repository."""

    def __init__(
        self,
        host: Spawner,
        repository_changes: RepositoryChanges,
        read_blob: Callable[[str], bytes],
    ) -> None:
        work_tree = Path(repository_changes.work_tree) if repository_changes.work_tree else None
        self._git = Git(host, Repository(Path(repository_changes.git_dir), work_tree))
        self._changes = repository_changes
        self._index = Path(repository_changes.git_dir) / "index"
        self._lock: int | None = None
        self._read_blob = read_blob
        self._change: IndexChange | None = None
        if repository_changes.index is not None:
            self._change = decode_index(read_blob(repository_changes.index))

    def import_objects(self) -> None:
        place, work_tree = self._git.repository.git_dir, self._git.repository.work_tree
        is_missing = work_tree and work_tree.resolve() == work_tree and not os.path.lexists(place)
        if self._changes.is_new and work_tree and is_missing:
            init(self._git.spawner, work_tree)
        if not is_git_dir(place) or place.resolve() != place:
            raise ToolError(f"there is no repository at {str(place)!r} any more")
        if self._changes.pack is not None:
            pack = self._read_blob(self._changes.pack)
            self._git.run("index-pack", "--stdin", "--strict", "--fix-thin", stdin=pack)

    def sign(self) -> Mapping[str, str]:
        """Sign new commits and tags, and let the refs move to these; return their new names."""
        changes, signing = self._changes, self._changes.signing
        if signing is None:
            return {}
        moves, stash = changes.refs, changes.stash or StashMove()
        tips = [move.after for move in moves] + [entry.commit for entry in stash.after]
        refs = {**refs_of(self._git), HEAD: head_of(self._git)}
        now = [refs.get(move.ref) for move in moves]
        now += [entry.commit for entry in stash_of(self._git)]
        before = [move.before for move in moves] + [entry.commit for entry in stash.before]
        objects = NewObjects(self._git, _objects(tips))
        names = objects.signed(signing, _objects(now), _objects(before))
        entries = [
            entry.model_copy(update={"commit": names.get(entry.commit, entry.commit)})
            for entry in stash.after
        ]
        self._changes = changes.model_copy(
            update={
                "refs": tuple(
                    move.model_copy(update={"after": names.get(move.after or "", move.after)})
                    for move in moves
                ),
                "stash": changes.stash
                and changes.stash.model_copy(update={"after": tuple(entries)}),
            }
        )
        return names

    def require_no_link_to(self, names: Collection[str]) -> None:
        """Raises `ToolError` if a submodule's entry leads to a commit that signing has renamed."""
        rows = self._change.after if self._change else ()
        if any(row.startswith(b"160000") and row.split()[1].decode() in names for row in rows):
            raise ToolError(
                "signing renames a commit in a submodule; commit there first, in its own command"
            )

    @contextmanager
    def lock(self) -> Generator[None]:
        """Keep git from changing index and HEAD; see gitrepository-layout(5)."""
        if self._change is None and not any(move.ref == HEAD for move in self._changes.refs):
            yield
            return
        lock = self._index.with_name(git_lock.LOCK)
        try:
            self._lock = git_lock.take(self._index.parent)
        except FileExistsError as exc:
            raise ToolError(f"another git works there: {str(lock)!r} exists; try again") from exc
        except OSError as exc:
            raise ToolError(f"{str(lock)!r} cannot be made: {exc.strerror}") from exc
        try:
            yield
        finally:
            git_lock.release(self._index.parent, self._lock)

    def require_unmoved(self) -> None:
        """Raises `ToolError` when something is neither as before nor as after the command."""
        repository_changes = self._changes
        if repository_changes.conflict is not None:
            raise ToolError(_move_text(repository_changes.conflict))
        refs = {**refs_of(self._git), HEAD: head_of(self._git)}
        for move in repository_changes.refs:
            if refs.get(move.ref) not in (move.before, move.after):
                raise ToolError(_move_text(move.ref.removeprefix("refs/heads/")))
        stash = repository_changes.stash
        if stash and stash_of(self._git) not in (stash.before, stash.after):
            raise ToolError(_move_text("the stash"))
        change = self._change
        if change is None:
            return
        rows = rows_at(rows_of(self._git), change.paths)
        if rows == change.after:
            self._change = None
        elif rows != change.before:
            raise ToolError(_move_text("what is staged"))

    def prepare_index(self) -> None:
        """Write the new index into the lock."""
        if self._change is None or self._lock is None:
            return
        with tempfile.TemporaryDirectory(prefix="oh-git-") as apart:
            index = Path(apart) / "index"
            if self._index.exists():
                index.write_bytes(self._index.read_bytes())
                os.fchmod(self._lock, stat.S_IMODE(self._index.stat().st_mode))
            make_change(self._git, index, self._change)
            with os.fdopen(os.dup(self._lock), "wb") as file:
                file.write(index.read_bytes())

    def move(self) -> None:
        self._move_refs()
        for move in self._changes.refs:
            if move.ref == HEAD and move.after is not None:
                self._move_head(move.before, move.after)
        if self._change is not None:
            self._index.with_name(git_lock.LOCK).rename(self._index)
        if self._changes.stash is not None:
            self._move_stash(self._changes.stash)
        for operation in self._changes.ends:
            self._git.ask(operation, "--quit")

    def _move_refs(self) -> None:
        """Move all refs or none; what has moved already is named again, which does nothing."""
        now = refs_of(self._git)
        moves = [move for move in self._changes.refs if move.ref != HEAD]
        rows = [_row(move) for move in moves if now.get(move.ref) != move.after]
        if rows:
            words = ("update-ref", "-m", _REASON, "--stdin", "-z")
            self._git.run(*words, stdin="".join(rows).encode("utf-8", "surrogateescape"))

    def _move_head(self, before: str | None, after: str) -> None:
        if not is_object(after):
            was = (before or "").removeprefix("refs/heads/")
            # git finds the branch before, as in `git switch -`, by these words; see @{-N} in
            # gitrevisions(7).
            why = f"checkout: moving from {was} to {after.removeprefix('refs/heads/')}"
            self._git.run("symbolic-ref", "-m", why, HEAD, after)
            return
        was = (before,) if before and is_object(before) else ()
        self._git.run("update-ref", "--no-deref", "-m", _REASON, HEAD, after, *was)

    def _move_stash(self, stash: StashMove) -> None:
        now = [entry.commit for entry in stash_of(self._git)]
        commits = [entry.commit for entry in stash.after]
        for entry in reversed(stash.after):
            if entry.commit not in now:
                # As `git stash store` does, which needs a work tree.
                words = ("update-ref", "--create-reflog", "-m", entry.message, STASH, entry.commit)
                self._git.run(*words)
        n_new = sum(commit not in now for commit in commits)
        for number in reversed(range(len(now))):
            if now[number] not in commits:
                self._git.run(
                    "reflog", "delete", "--updateref", "--rewrite", f"{STASH}@{{{number + n_new}}}"
                )
        if not commits:
            self._git.run("update-ref", "-d", STASH)


def _objects(names: Iterable[str | None]) -> Sequence[str]:
    return [*dict.fromkeys(name for name in names if name and is_object(name))]


def _move_text(name: str) -> str:
    return f"{name} was moved by somebody else meanwhile, so nothing of it was taken"


def _row(move: RefMove) -> str:
    if move.after is None:
        return f"delete {move.ref}\0{move.before}\0"
    if move.before is None:
        return f"create {move.ref}\0{move.after}\0"
    return f"update {move.ref}\0{move.after}\0{move.before}\0"
