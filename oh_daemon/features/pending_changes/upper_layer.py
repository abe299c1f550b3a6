"""Finds what commands changed below an open folder by comparing the upper layer with the disk.

Only looks; `taking.take_out` removes. What git ignores is not compared, since it may be large.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.sandbox import layer as layers
from oh_daemon.features.sandbox.layer import parents
from oh_daemon.workspace.databases import databases, is_journal_name, parts_of
from oh_daemon.workspace.files import PERMISSIONS

_STATE = (".openhands/conversations/", ".openhands/chat/")
"""Where the conversations of a project are kept; never changed by commands."""
SLACK_NS = 20_000_000
"""How far the clock of files may lag behind."""
_FIRST_ASKED = 1_000
_MAX_NAMES = 200_000
_MAX_COUNTED = 10_000
_MAX_FOLDER_BYTES = 3_000
"""The longest name of a folder that is listed, so that what is in it fits into a path."""
_OF_REPOSITORY = ("HEAD", "objects", "refs")
"""What makes a folder a repository to git, whatever its name."""

AreIgnored = Callable[[Sequence[str]], Collection[str]]
"""Returns those of some names that git ignores; a folder's name ends with a slash."""


class OverlayEntry(Struct, frozen=True):
    """The file, folder or link of a name, on the disk or in the sandbox."""

    kind: Literal["file", "link", "folder", "other"]
    """`other` is a pipe, a socket or a device, or a folder that is too deep to be looked at."""
    mode: int
    """Permissions. Only a file on the disk has setuid, setgid and sticky bits here."""
    size: int
    """Of a file; else 0."""
    target: str | None = None


class Change(Struct, frozen=True):
    """A name, relative to the folder, under which the sandbox has something else than the disk."""

    name: Path
    before: OverlayEntry | None
    """On the disk now; None when there is nothing."""
    after: OverlayEntry | None
    """In the sandbox; None when it is deleted."""
    is_stale: bool
    """Whether the disk's entry is newer than the command, which then began from another one."""


class ChangeSet(Struct, frozen=True):
    """Everything in a layer, by what is to be done with it."""

    changes: Sequence[Change]
    """By name. Of folders only those whose creation or deletion no name below tells, and modes."""
    same: Sequence[Path]
    """What is no change and should be taken out."""
    ignored_files: Mapping[Path, int]
    """The topmost names that git ignores, with the number of files, at most 10,000 of each."""
    git: Sequence[Change]
    """Changed names of repositories' own files."""
    in_use: frozenset[Path]
    """What is written to by a process that still lives."""


class _Pair(Struct, frozen=True):
    """What stands under a name in the layer and on the disk."""

    name: str
    layer: os.stat_result | None
    """None when it is deleted."""
    disk: os.stat_result | None
    is_hiding: bool
    """Whether what the disk has below it is not seen through the layer."""
    is_git: bool

    @property
    def is_folder(self) -> bool:
        return layers.is_folder(self.layer or self.disk)

    @property
    def is_ours(self) -> bool:
        return f"{self.name}/".startswith(_STATE)


class _Roots(Struct, frozen=True):
    """Open folders."""

    layer: int
    disk: int


def collect(
    upper: Path,
    folder: Path,
    *,
    handed_in: Mapping[Path, str],
    since_ns: int,
    list_open: Callable[[], Collection[Path]],
    are_ignored: AreIgnored | None,
) -> ChangeSet:
    """Compare a layer with the folder below it. Raises `OSError`.

    `are_ignored` is None where git keeps its own files.
    `handed_in` has the sha256 of what is in the layer without being a change; `since_ns` is when
    the command began, as a time of files; `list_open` is `proc.held_open`, which takes long.
    """
    with layers.open_folder(upper) as layer, layers.open_folder(folder) as disk:
        roots = _Roots(layer, disk)
        pairs, ignored_names = _walk(roots, are_ignored)
        in_use = _with_databases(roots, pairs, list_open() if pairs else ())
        hashes = {str(name): sha256 for name, sha256 in handed_in.items()}
        folders = layers.folders_above((*ignored_names, *(pair.name for pair in pairs)))
        sorts: dict[_Sort, list[Change]] = {sort: [] for sort in get_args(_Sort)}
        for pair in pairs:
            before, after = _entries(roots, pair)
            is_reported = pair.name in folders
            sort = _sort(roots, pair, before, after, hashes.get(pair.name), is_reported=is_reported)
            if pair.name in in_use and not pair.is_folder:
                sort = "held"
            if sort != "nothing":  # A path of each folder on a deep path is expensive.
                sorts[sort].append(_change(pair, before, after, since_ns))
        counts = {Path(name): layers.count(layer, name, _MAX_COUNTED) for name in ignored_names}
    names = {sort: sorted(change.name for change in changes) for sort, changes in sorts.items()}
    return ChangeSet(
        changes=sorted(sorts["change"], key=lambda change: change.name),
        same=names["same"],
        ignored_files=dict(sorted(counts.items())),
        git=sorted(sorts["git"], key=lambda change: change.name),
        in_use=frozenset(names["held"]),
    )


class SubtreeChanges(Struct, frozen=True):
    """Everything that a layer changes at a name and below it, as it was at one moment."""

    writes: Sequence[str]
    """Names of new and changed files and links."""
    deletions: Sequence[str]
    """Names of files that the disk has and the sandbox has not."""
    replaced: Sequence[str]
    """Names among both under which the disk has a regular file, and journals of databases."""
    fingerprint: str
    """Differs when a command has changed any of them; ctime cannot be set, see inode(7)."""


def subtree_changes(upper: Path, folder: Path, name: str) -> SubtreeChanges:
    """Compare a layer with the folder below it at one name. Raises `OSError`.

    `FileNotFoundError` means that the layer has nothing there.
    """
    writes: list[str] = []
    deletions: list[str] = []
    replaced: list[str] = []
    digest = hashlib.sha256()
    with layers.open_folder(upper) as layer, layers.open_folder(folder) as disk:
        roots = _Roots(layer, disk)
        with layers.holding(layer, name) as (above, last):
            entry = layers.status(above, last)
            if entry is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            own = None if layers.is_whiteout(above, last, entry) else entry
        stack = [_Pair(name, own, layers.status_below(disk, name), is_hiding=False, is_git=False)]
        while stack:
            pair = stack.pop()
            own = pair.layer
            status = own and (own.st_mode, own.st_ino, own.st_size, own.st_ctime_ns)
            if layers.is_folder(own):
                status = own and (own.st_mode,)
            elif own or not layers.is_folder(pair.disk):
                (writes if own else deletions).append(pair.name)
                is_file = pair.disk is not None and stat.S_ISREG(pair.disk.st_mode)
                if is_file or is_journal_name(pair.name):
                    replaced.append(pair.name)
            digest.update(f"{pair.name}\0{status}\0".encode("utf-8", "surrogateescape"))
            if len(writes) + len(deletions) > _MAX_NAMES:
                raise OSError(errno.E2BIG, f"more than {_MAX_NAMES:,} files changed")
            if _is_listed(pair):
                stack += sorted(_children(roots, pair), key=lambda child: child.name)
    return SubtreeChanges(writes, deletions, replaced, digest.hexdigest())


_Sort = Literal["change", "same", "git", "held", "nothing"]


def _sort(
    roots: _Roots,
    pair: _Pair,
    before: OverlayEntry | None,
    after: OverlayEntry | None,
    handed_hash: str | None,
    *,
    is_reported: bool,
) -> _Sort:
    is_file = after is not None and after.kind == "file"
    on_disk = before
    before = before and replace(before, mode=before.mode & PERMISSIONS)
    is_mode_kept = before is None or after is None or before.mode == after.mode
    is_handed_in = handed_hash is not None and is_file and is_mode_kept
    if is_handed_in and handed_hash == _digest(roots.layer, pair.name):
        return "nothing"
    if after and after.kind == "folder" and layers.has(roots.layer, pair.name, layers.is_kept):
        # Only the disk's folder can have changed since `take_out` left this one.
        return "nothing" if is_reported or before == after else "same"
    if is_reported and _is_reported_by_others(on_disk, after):
        return "nothing"
    is_same = before == after
    if is_same and is_file:
        is_same = layers.are_equal(roots.layer, roots.disk, pair.name)
    if pair.is_ours or is_same:
        return "same"
    return "git" if pair.is_git else "change"


def _is_reported_by_others(before: OverlayEntry | None, after: OverlayEntry | None) -> bool:
    """Whether a change of a folder follows from those below it; a change of its mode does not."""
    kinds = {entry.kind for entry in (before, after) if entry}
    is_one = before is None or after is None or before == after
    return kinds == {"folder"} and is_one


def _with_databases(
    roots: _Roots, pairs: Sequence[_Pair], in_use: Collection[Path]
) -> frozenset[str]:
    """Return the files in use, with all the files of a database of which one is in use."""
    if not in_use:
        return frozenset()
    open_names = {*map(str, in_use)}
    return frozenset(open_names | parts_of(_databases(roots, pairs), open_names))


def _databases(roots: _Roots, pairs: Iterable[_Pair]) -> Mapping[str, str]:
    """Return the main file of each file that belongs to a database with changed journals."""
    names = [pair.name for pair in pairs if not pair.is_folder]
    return databases(names, lambda name: layers.status_below(roots.disk, name) is not None)


def _walk(roots: _Roots, are_ignored: AreIgnored | None) -> tuple[list[_Pair], list[str]]:
    """Return every pair that is not ignored, and the topmost names that are.

    Git is asked about the upper folders first, so that what it ignores is not even listed.
    """
    is_git = are_ignored is None
    top = _Pair("", os.fstat(roots.layer), os.fstat(roots.disk), is_hiding=False, is_git=is_git)
    pairs: list[_Pair] = []
    ignored_names: list[str] = []
    queue, at_once = deque([top]), _FIRST_ASKED
    while queue:
        batch: list[_Pair] = []
        while queue and len(batch) < at_once:
            children = [*_children(roots, queue.popleft())]
            batch += children
            queue += (pair for pair in children if _is_listed(pair))
        main_files = _databases(roots, batch)
        queries = {
            pair.name: main_files.get(pair.name, _query_name(pair))
            for pair in batch
            if not (pair.is_git or pair.is_ours)
        }
        ignored_queries = (
            are_ignored([*dict.fromkeys(queries.values())]) if are_ignored and queries else ()
        )
        out = {name for name, query in queries.items() if query in ignored_queries}
        ignored_names += (name for name in out if out.isdisjoint(parents(name)))
        pairs += (pair for pair in batch if pair.name not in out)
        queue = deque(pair for pair in queue if pair.name not in out)
        at_once = _MAX_NAMES
        if len(pairs) > _MAX_NAMES:
            raise OSError(errno.E2BIG, f"more than {_MAX_NAMES:,} files changed")
    return pairs, ignored_names


def _query_name(pair: _Pair) -> str:
    return f"{pair.name}/" if pair.is_folder else pair.name


def _is_listed(pair: _Pair) -> bool:
    is_folder = layers.is_folder(pair.layer) or layers.is_folder(pair.disk)
    return is_folder and not _is_too_deep(pair.name)


def _is_too_deep(name: str) -> bool:
    return len(os.fsencode(name)) > _MAX_FOLDER_BYTES


def _children(roots: _Roots, above: _Pair) -> Iterator[_Pair]:
    """Yield what the layer has in a folder, and what the disk has there that is deleted."""
    upper, is_opaque = _in_layer(roots.layer, above)
    is_hiding = above.is_hiding or is_opaque or not layers.is_folder(above.layer)
    lower = _on_disk(roots.disk, above, None if is_hiding else {*upper, *_OF_REPOSITORY})
    names = {*lower, *(last for last, entry in upper.items() if entry)}
    is_git = above.is_git or names.issuperset(_OF_REPOSITORY) or {"HEAD", "commondir"} <= names
    for last in dict.fromkeys((*upper, *lower)) if is_hiding else upper:
        name = f"{above.name}/{last}" if above.name else last
        is_inside = is_git or last == ".git"
        yield _Pair(name, upper.get(last), lower.get(last), is_hiding, is_inside)


def _in_layer(root: int, above: _Pair) -> tuple[dict[str, os.stat_result | None], bool]:
    """Return the entries of a folder, None for what is deleted, and whether it is opaque."""
    if not layers.is_folder(above.layer):
        return {}, False
    try:
        with layers.within(root, above.name) as folder:
            entry_by_name = {
                last: None if layers.is_whiteout(folder, last, entry) else entry
                for last, entry in layers.entries(folder).items()
            }
            return entry_by_name, layers.is_opaque(folder)
    except OSError:
        return {}, False  # It may not be read, or it is gone again.


def _on_disk(root: int, above: _Pair, names: Collection[str] | None) -> dict[str, os.stat_result]:
    """Return all entries of a folder, or those of some names."""
    if not layers.is_folder(above.disk):
        return {}
    try:
        with layers.within(root, above.name) as folder:
            if names is None:
                return layers.entries(folder)
            entry_by_name = {last: layers.status(folder, last) for last in names}
    except OSError:
        return {}
    return {last: entry for last, entry in entry_by_name.items() if entry}


def _entries(roots: _Roots, pair: _Pair) -> tuple[OverlayEntry | None, OverlayEntry | None]:
    """Return what the disk and the sandbox have."""
    before = entry_of(roots.disk, pair.name, pair.disk)
    if before and pair.disk and before.kind == "file":
        # A change of its content takes these bits away, as write(2) does.
        before = replace(before, mode=stat.S_IMODE(pair.disk.st_mode))
    return before, entry_of(roots.layer, pair.name, pair.layer)


def _change(
    pair: _Pair, before: OverlayEntry | None, after: OverlayEntry | None, since_ns: int
) -> Change:
    return Change(
        name=Path(pair.name),
        before=before,
        after=after,
        is_stale=pair.disk is not None and pair.disk.st_ctime_ns > since_ns - SLACK_NS,
    )


def entry_of(root: int, name: str, status: os.stat_result | None) -> OverlayEntry | None:
    """Return what stands under a name below an open folder, of which this is the status."""
    if status is None:
        return None
    mode = status.st_mode & PERMISSIONS
    if stat.S_ISREG(status.st_mode):
        return OverlayEntry("file", mode, status.st_size)
    if stat.S_ISDIR(status.st_mode) and not _is_too_deep(name):
        return OverlayEntry("folder", mode, 0)
    if stat.S_ISLNK(status.st_mode):
        return OverlayEntry("link", mode, 0, layers.link_target(root, name))
    return OverlayEntry("other", mode, 0)


def _digest(root: int, name: str) -> str | None:
    digest = hashlib.sha256()
    try:
        with layers.regular(root, name) as file:
            while piece := os.read(file, layers.PIECE):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()
