"""Plans how repository changes of commands are applied: compared with the disk, kept as blobs.

git is asked on both sides. What the sandbox's git says is a claim: its objects are checked by the
host's git, in a folder of their own, before anybody is asked about them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from oh_daemon.common.plain_text import clip_line, join_names, well_formed
from oh_daemon.features.pending_changes.git_repositories import (
    RepositoryGrouping,
    RepositoryNames,
    top_in,
)
from oh_daemon.features.pending_changes.signing import NewObjects, describe, find_signing
from oh_daemon.features.pending_changes.upper_layer import SLACK_NS, Change
from oh_daemon.features.sandbox.signature_mark import MARK
from oh_daemon.protocol.checkpoints import RefMove, RepositoryChanges, Signing, StashMove
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import GitChange
from oh_daemon.system.git import (
    HEAD,
    Git,
    IndexChange,
    Repository,
    compare_index,
    differing_from_disk,
    head_of,
    init,
    is_object,
    path_of,
    refs_of,
    refusal_of,
    rows_of,
    stash_of,
)
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import guard_reason, printable, uri_from_path

_MAX_NAMED = 3
_NEW = "bare repositories, work trees and submodules have to be made outside the sandbox"
OTHERS = "git's settings, hooks and refs of others do not come back from the sandbox"
_UNDER_WAY = (
    "[git] A {operation} is under way in {name}. Its commits stay in the sandbox until it is"
    " finished or aborted; then all of them come back together."
)


class GitPlan(Struct):
    """What becomes of git's own files."""

    repositories: list[RepositoryChanges] = field(default_factory=list[RepositoryChanges])
    notes: list[str] = field(default_factory=list[str])
    """For the model."""
    refusals: list[str] = field(default_factory=list[str])
    """The notes about repositories of which no change by git is applied, with the reasons."""
    removals: dict[Path, list[Path]] = field(default_factory=dict[Path, list[Path]])
    """Names below each open folder that are to be taken out of the layer; others stay there."""
    refused_files: dict[Path, str] = field(default_factory=dict[Path, str])
    """Files in open folders that git wrote for something that was refused, with the reason."""
    tracked_outside: dict[Path, frozenset[Path]] = field(
        default_factory=dict[Path, frozenset[Path]]
    )
    """Files outside the open folders that git may have written, by the top of their work tree."""

    def refuse(self, note: str) -> None:
        self.notes.append(note)
        self.refusals.append(note)


class _RepositoryChanges(Struct, frozen=True):
    """What differs in one repository."""

    refs: Sequence[RefMove] = ()
    stash: StashMove | None = None
    index: IndexChange | None = None

    @property
    def ref_tips(self) -> Sequence[str]:
        """Names of commits and tags to which refs lead."""
        tips = (move.after for move in self.refs if move.after and is_object(move.after))
        return [*dict.fromkeys(tips)]

    @property
    def commits(self) -> Sequence[str]:
        """Names of commits and tags to which refs and stash lead."""
        stashed = (entry.commit for entry in self.stash.after) if self.stash else ()
        return [*dict.fromkeys((*self.ref_tips, *stashed))]

    @property
    def tips(self) -> set[str]:
        """Names of all objects that the disk must have."""
        return {*self.commits} | (self.index.objects if self.index else set())


class Repositories:
    """The repositories in the open folders of one sandbox. Blocks."""

    def __init__(
        self,
        overlay: Spawner,
        host: Spawner,
        put_blob: Callable[[bytes], str],
        uri_of: Callable[[Path], str],
        name_of: Callable[[Path], str],
        folders: Sequence[Path],
    ) -> None:
        """`name_of` returns what people call a path; empty for the usual repository.

        `folders` are the real paths of the open folders, beyond which no file is changed.
        """
        self._overlay = overlay
        self._host = host
        self._put_blob = put_blob
        self._uri_of = uri_of
        self._name_of = name_of
        self._folders = folders
        self._under_way: dict[Path, int] = {}
        """Repositories in the middle of something, and when that began."""

    @classmethod
    def of(cls, overlay: Spawner, host: Spawner, documents: Documents) -> Self:
        """Return those in the folders of a conversation, whose log keeps the blobs."""
        folders = documents.folders

        def uri_of(path: Path) -> str:
            return uri_from_path(folders.as_opened(path))

        def name_of(top: Path) -> str:
            return "" if folders.roots[0].is_relative_to(top) else folders.name(top)

        put_blob = documents.history.blobs.put_blob
        return cls(overlay, host, put_blob, uri_of, name_of, folders.roots)

    def plan(
        self, changes_by_folder: Sequence[tuple[Path, Sequence[Change]]], since_ns: int
    ) -> GitPlan:
        """Decide what becomes of changed names of git's own files below open folders."""
        plan = GitPlan()
        under_way: dict[Path, int] = {}
        for folder, changes in changes_by_folder:
            grouping = RepositoryGrouping(folder, changes)
            removals = plan.removals.setdefault(folder, [*grouping.strays])
            if grouping.strays:
                plan.notes.append(_refusal_text([str(name) for name in grouping.strays], _NEW))
            for common, group in grouping.groups.items():
                began_ns = self._under_way.get(common, since_ns)
                operation = next((each.operation for each in group if each.operation), None)
                is_refused = self._is_refused(plan, group)
                if operation is None or is_refused:
                    if not is_refused:
                        self._plan_group(plan, group, began_ns)
                    removals += [change.name for each in group for change in each.changes.values()]
                    continue
                under_way[common] = began_ns
                if common not in self._under_way:
                    name = self._name_of(common.parent) or "the repository"
                    plan.notes.append(_UNDER_WAY.format(operation=operation, name=name))
        self._under_way = under_way
        return plan

    def _is_refused(self, plan: GitPlan, group: Sequence[RepositoryNames]) -> bool:
        try:
            refusals = [self._refuse_outside(plan, names) for names in group]
        except ToolError as exc:
            name = self._name_of(group[0].repository.git_dir)
            plan.refuse(_refusal_text([name], f"{exc}"))
            return True
        return any(refusals)

    def _refuse_outside(self, plan: GitPlan, names: RepositoryNames) -> bool:
        """Refuse what changes files outside the open folders, which no plan would bring along."""
        disk, overlay = Git(self._host, names.repository), Git(self._overlay, names.repository)
        if names.is_new or self._is_inside(top := _top_of(names, disk)):
            return False
        tops = self._tops(names.common)
        index = compare_index(disk, overlay) if names.has_index else None
        paths = index.paths if index else frozenset[bytes]()
        outside = {path for path in paths if not self._is_inside(top / os.fsdecode(path))}
        if index is not None and outside:
            outside &= differing_from_disk(disk, index)
        if names.has_refs:  # The stash of all work trees.
            paths |= (stashed := _stashed(disk, overlay))
            outside |= {
                path
                for path in stashed
                if not any(self._is_inside(each / os.fsdecode(path)) for each in tops)
            }
        if names.has_index and not names.operation:
            rows = rows_of(disk) | (index.after if index else frozenset[bytes]())
            tracked = (Path(os.fsdecode(path_of(row))) for row in rows)
            plan.tracked_outside[top] = frozenset(tracked)
        is_foreign = not any(folder.is_relative_to(top) for folder in self._folders)
        is_moved = is_foreign and names.has_head and head_of(disk) != head_of(overlay)
        if not (outside or is_moved):
            return False
        why = f"git changed {first_names(outside) or 'HEAD'}, {outside_text(top)}"
        plan.refuse(f"[git] Not kept: {why}.")
        plan.refused_files |= {
            path: why
            for each in (top, *tops)
            for name in paths
            if self._is_inside(path := each / os.fsdecode(name))
        }
        return True

    def _is_inside(self, path: Path) -> bool:
        return any(map(path.is_relative_to, self._folders))

    def _tops(self, common: Path) -> Sequence[Path]:
        """Return the work trees of a repository that hold open folders or parts of them."""
        return [top for folder in self._folders if (top := top_in(folder, common)) is not None]

    def forget(self) -> None:
        """Everything was taken out of the layers."""
        self._under_way = {}

    def _plan_group(self, plan: GitPlan, group: Sequence[RepositoryNames], since_ns: int) -> None:
        """Plan what was done to a repository and its linked work trees: all of it or nothing."""
        repositories: list[RepositoryChanges] = []
        for names in group:
            name = self._name_of(names.repository.git_dir)
            if names.other_names:
                other_names = [f"{name}/{each}" for each in names.other_names]
                plan.notes.append(_refusal_text(other_names, OTHERS))
            try:
                repositories += self._plan_repositories(names, since_ns)
            except ToolError as exc:
                plan.refuse(_refusal_text([name], f"{exc}"))
                return
        has_refs = any(repository_changes.refs for repository_changes in repositories)
        # What is staged follows from a commit, also in the index of another work tree.
        plan.repositories += [
            repository_changes.model_copy(update={"summary": ()})
            if has_refs and not (repository_changes.refs or repository_changes.stash)
            else repository_changes
            for repository_changes in repositories
        ]

    def _plan_repositories(
        self, names: RepositoryNames, since_ns: int
    ) -> Sequence[RepositoryChanges]:
        repository, overlay = names.repository, Git(self._overlay, names.repository)
        # git does not check the owner where `--git-dir` names the repository, as below.
        if refusal := refusal_of(self._host, repository.work_tree or repository.git_dir):
            raise ToolError(refusal)
        with tempfile.TemporaryDirectory(prefix="oh-git-") as apart:
            objects = names.common / "objects"
            if names.is_new:
                repository = Repository(Path(apart, "new/.git"), Path(apart, "new"))
                init(self._host, Path(apart, "new"))
                objects = repository.git_dir / "objects"
            disk = Git(self._host, repository)
            comparison = _compare(names, disk, overlay)
            if comparison is None and not names.is_new:
                return []
            # See git(1): new objects go to the first, and those of the disk are read, too.
            apart_too = {
                "GIT_OBJECT_DIRECTORY": f"{apart}/objects",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
            }
            Path(apart, "objects").mkdir()
            repository_git = Git(self._host, repository, apart_too)
            return [
                self._plan_repository(
                    names,
                    comparison or _RepositoryChanges(),
                    overlay,
                    disk,
                    repository_git,
                    since_ns,
                )
            ]

    def _plan_repository(
        self,
        names: RepositoryNames,
        comparison: _RepositoryChanges,
        overlay: Git,
        disk: Git,
        repository_git: Git,
        since_ns: int,
    ) -> RepositoryChanges:
        pack = _pack(comparison.tips, disk, overlay)
        _check(repository_git, pack, comparison.tips)
        names_in_git = _changed_names(repository_git, comparison)
        work_tree = names.repository.work_tree
        top = _top_of(names, disk)
        if not self._is_inside(top):  # Refs of one repository are those of all its work trees.
            top = next(iter(self._tops(names.common)), top)
        name = self._name_of(top)
        new_objects = NewObjects(repository_git, comparison.commits).parts()
        is_unsigned, signing = False, self._signing(names, new_objects)
        if signing is None:
            is_unsigned = _lacks_signatures(disk, NewObjects(repository_git, comparison.ref_tips))
        words = CommitTitles(
            repository_git,
            self._uri_of(top),
            f" in {name}" if name else "",
            dict.fromkeys(
                new_objects,
                describe(signing) if signing else ", unsigned" if is_unsigned else "",
            ),
        )
        rows = [*words.changes(comparison.refs, comparison.stash, comparison.index)]
        rows += [words.new()] if names.is_new and not rows else []
        return RepositoryChanges(
            git_dir=str(names.repository.git_dir),
            work_tree=str(work_tree) if work_tree else None,
            is_new=names.is_new or None,
            refs=tuple(comparison.refs),
            stash=comparison.stash,
            index=self._put_blob(comparison.index.encode()) if comparison.index else None,
            pack=self._put_blob(pack) if pack else None,
            ends=tuple(names.removed_names),
            protected_names=tuple(well_formed(name) for name in names_in_git if guard_reason(name)),
            signing=signing,
            unsigned=is_unsigned or None,
            conflict=_conflict_text(names, comparison, disk, since_ns),
            summary=tuple(rows),
        )

    def _signing(
        self, names: RepositoryNames, new_objects: Mapping[str, tuple[bytes, bytes]]
    ) -> Signing | None:
        """Return how new commits and tags are signed; None if git would sign none of them."""
        if not any(MARK in signature for signature, _ in new_objects.values()):
            return None
        place = names.repository.work_tree or names.repository.git_dir
        return find_signing(self._host, place, [*self._folders, names.common])


def _lacks_signatures(disk: Git, new_objects: NewObjects) -> bool:
    """Return whether the user's git would have signed a new commit that has no signature."""
    if not new_objects.tips:
        return False
    if disk.ask("config", "--type=bool", "commit.gpgsign").stdout != b"true\n":
        return False
    email = disk.ask("config", "user.email").stdout.strip()
    return any(
        not signature and re.search(rb"^committer .*<%s> " % re.escape(email), payload, re.M)
        for signature, payload in new_objects.parts().values()
    )


def _refusal_text(names: Sequence[str], why: str) -> str:
    return f"Left as it was: {', '.join(map(printable, names))}: {printable(why)}."


def _compare(names: RepositoryNames, disk: Git, overlay: Git) -> _RepositoryChanges | None:
    moves: list[RefMove] = []
    stash = None
    if names.has_refs:
        before, after = refs_of(disk), refs_of(overlay)
        moves += [
            RefMove(ref=ref, before=before.get(ref), after=after.get(ref))
            for ref in sorted(before.keys() | after.keys())
            if before.get(ref) != after.get(ref)
        ]
        had, has = stash_of(disk), stash_of(overlay)
        stash = StashMove(before=had, after=has) if had != has else None
    if names.has_head and (was := head_of(disk)) != (now := head_of(overlay)):
        moves.append(RefMove(ref=HEAD, before=was, after=now))
    index = compare_index(disk, overlay) if names.has_index else None
    return _RepositoryChanges(moves, stash, index) if moves or stash or index else None


def _pack(tips: set[str], disk: Git, overlay: Git) -> bytes:
    """Return the objects that only the sandbox has; empty if there are none."""
    disk_objects = {
        *disk.rows("for-each-ref", "--format=%(objectname)"),
        head_of(disk, is_peeled=True),
    }
    revisions = [*sorted(tips), *(f"^{each}" for each in sorted(filter(None, disk_objects)))]
    words = ("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset")
    pack = overlay.run(*words, stdin=_lines(revisions)) if tips else b""
    n_objects = int.from_bytes(pack[8:12], "big")  # See gitformat-pack(5).
    return pack if n_objects else b""


def _check(repository_git: Git, pack: bytes, tips: set[str]) -> None:
    """Check the new objects, with a git that sees them next to those of the disk."""
    if pack:
        repository_git.run("index-pack", "--stdin", "--strict", stdin=pack)
    if tips:
        # As git itself does after a fetch (connected.c): nothing that the tips lead to is missing.
        words = ("rev-list", "--objects", "--stdin", "--not", "--all")
        repository_git.run(*words, stdin=_lines(sorted(tips)))


def _changed_names(repository_git: Git, comparison: _RepositoryChanges) -> list[str]:
    """Return the names of files that new commits, moved branches or the index change.

    Each commit is compared with its first parent, and each branch with its commit before, so it
    makes no difference whether the repository has the objects already.
    """
    tips = _lines(sorted(comparison.tips))
    words = ("rev-list", "--parents", "--stdin", "--not", "--all")
    commits = (
        [row.split(" ")[:2] for row in repository_git.rows(*words, stdin=tips)] if tips else []
    )
    commits += [
        [move.after, move.before]
        for move in comparison.refs
        if not move.ref.startswith(_TAG)
        and (move.after and is_object(move.after))
        and (move.before and is_object(move.before))
    ]
    # More commits on a line than one take the place of its parents; see git-diff-tree(1).
    words = ("diff-tree", "--stdin", "--root", "-r", "-z", "--name-only", "--no-commit-id")
    pairs = _lines([" ".join(commit) for commit in commits])
    names = repository_git.run(*words, stdin=pairs).split(b"\0")[:-1] if commits else []
    names += comparison.index.paths if comparison.index else ()
    return [os.fsdecode(name) for name in dict.fromkeys(names)]


def _lines(rows: Sequence[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _stashed(disk: Git, overlay: Git) -> frozenset[bytes]:
    """Return the names of files in the entries that the stash gained or lost."""
    before, after = ({entry.commit for entry in stash_of(git)} for git in (disk, overlay))
    names: set[bytes] = set()
    for commit in before ^ after:
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-commit-id", f"{commit}^1", commit)
        names |= {*overlay.run(*words).split(b"\0")[:-1]}
        # `--include-untracked` puts these files into a third parent; see git-stash(1).
        untracked = overlay.ask("ls-tree", "-r", "-z", "--name-only", f"{commit}^3")
        names |= {*untracked.stdout.split(b"\0")[:-1]}
    return frozenset(names)


def first_names(paths: Collection[bytes]) -> str:
    """Return the first of some names as people read them, and how many more there are."""
    return join_names([printable(os.fsdecode(path)) for path in sorted(paths)], _MAX_NAMED)


def outside_text(top: Path) -> str:
    """Return why a file of a work tree is left as it was, and the way out."""
    return f"outside the open folder: open the repository's root, {printable(str(top))}, for that"


def _top_of(names: RepositoryNames, disk: Git) -> Path:
    work_tree = names.repository.work_tree
    return work_tree.resolve() if work_tree is not None else _top(disk)


def _top(disk: Git) -> Path:
    answer = disk.ask("rev-parse", "--show-toplevel")
    path_text = answer.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")
    return Path(path_text) if path_text and not answer.exit_code else disk.repository.git_dir


def _conflict_text(
    names: RepositoryNames, comparison: _RepositoryChanges, disk: Git, since_ns: int
) -> str | None:
    """Return what somebody else has moved since a time."""
    places = [(move.ref, _file_of(names, move.ref)) for move in comparison.refs if move.before]
    places += [("the stash", names.common / "logs/refs/stash")] if comparison.stash else []
    for name, place in places:
        if _is_newer(place, since_ns):
            return name.removeprefix("refs/heads/")
    if comparison.index is not None and _is_newer(names.repository.git_dir / "index", since_ns):
        # Whoever looks at the index may write it, too: the times of files are in it.
        answer = disk.ask("diff-index", "--cached", "--name-only", "-z", "HEAD", "--")
        index_paths = set(answer.stdout.split(b"\0")) & comparison.index.paths
        return "what is staged" if index_paths or answer.exit_code else None
    return None


def _file_of(names: RepositoryNames, ref: str) -> Path:
    """Return the file on the disk that is written when a ref moves."""
    if ref == HEAD:
        return names.repository.git_dir / HEAD
    candidates = (ref, "packed-refs", "reftable/tables.list")
    return next((p for each in candidates if (p := names.common / each).exists()), names.common)


def _is_newer(place: Path, since_ns: int) -> bool:
    try:
        return place.lstat().st_ctime_ns > since_ns - SLACK_NS
    except OSError:
        return False


_MAX_SUBJECT = 100
_SHORT = 8
_BRANCH, _TAG = "refs/heads/", "refs/tags/"


class CommitTitles(Struct, frozen=True):
    """Of one repository, by a git that also sees the objects that came with the command."""

    git: Git
    uri: str
    where: str
    """What follows a branch's name, ` in libs/parser` for instance; empty for the usual one."""
    signatures: Mapping[str, str]
    """The words about the signature that follow the title of a move, by the object it leads to."""

    def changes(
        self, refs: Sequence[RefMove], stash: StashMove | None, index: IndexChange | None
    ) -> Iterator[GitChange]:
        for move in refs:
            fields = {"ref": move.ref, "before": move.before, "after": move.after}
            title = self._title(move) + self.signatures.get(move.after or "", "")
            yield GitChange(repository=self.uri, title=title, **fields)
        for title in self._stash_titles(stash) if stash else ():
            yield GitChange(repository=self.uri, title=title, ref="refs/stash")
        if index is not None and not refs and stash is None:
            yield GitChange(
                repository=self.uri, title=f"what is staged{self.where}: {_index_title(index)}"
            )

    def new(self) -> GitChange:
        return GitChange(repository=self.uri, title=f"a new repository{self.where}")

    def _title(self, move: RefMove) -> str:
        name = printable(move.ref.removeprefix(_BRANCH).removeprefix(_TAG)) + self.where
        if move.ref == "HEAD":
            return self._head(move)
        if move.ref.startswith(_TAG):
            return f"{_verb(move)} tag {name}"
        if move.after is None:
            return f"delete branch {name}"
        if move.before is None:
            return f"new branch {name} at {self._commit(move.after)}"
        return self._move_title(move.before, move.after, name)

    def _head(self, move: RefMove) -> str:
        before, after = move.before or "", move.after or ""
        if after.startswith("refs/"):
            return f"switch to {printable(after.removeprefix(_BRANCH))}{self.where}"
        if before.startswith("refs/"):
            return f"switch to no branch{self.where}, at {self._commit(after)}"
        return self._move_title(before, after, f"no branch{self.where}")

    def _move_title(self, before: str, after: str, name: str) -> str:
        counts = self.git.rows("rev-list", "--count", "--left-right", f"{before}...{after}")
        n_lost, n_new = map(int, counts[0].split())
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
        for verb, entries, other_entries in (
            ("stash", stash.after, had),
            ("drop stash", stash.before, has),
        ):
            for entry in entries:
                if entry.commit not in other_entries:
                    yield f"{verb}{self.where}: {clip_line(printable(entry.message), _MAX_SUBJECT)}"

    def _commit(self, commit: str) -> str:
        return f"{commit[:_SHORT]}: {self._subject(commit)}"

    def _subject(self, commit: str) -> str:
        try:
            rows = self.git.rows("rev-list", "--max-count=1", "--format=%s", commit, "--")
        except ToolError:
            return ""  # It is no commit.
        return clip_line(printable(rows[1]), _MAX_SUBJECT) if rows[1:] else ""


def _count(number: int) -> str:
    return f"{number} commit{'s' if number > 1 else ''}"


def _verb(move: RefMove) -> str:
    if move.after is None:
        return "delete"
    return "new" if move.before is None else "move"


def _index_title(index: IndexChange) -> str:
    return first_names(index.paths)
