"""A git worktree for an isolated conversation where there is no sandbox.

It begins with what the user sees, but for what git ignores. Nothing holds the commands in it.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field, to_builtins

from oh_daemon.features.isolation.isolated_files import IsolationState, PendingFiles
from oh_daemon.features.pending_changes.changed_files import (
    MAX_BYTES,
    content,
    describe_change,
    why_not_applied,
)
from oh_daemon.features.pending_changes.upper_layer import Change, OverlayEntry, entry_of
from oh_daemon.features.sandbox import layer
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import FileChange
from oh_daemon.system.git import run_git
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import printable, quoted, real_path

LACKS = (
    "It has what git ignores and submodules not, and its path is another one. Nothing keeps"
    " commands from leaving it, so they ask as usual; what they change elsewhere is changed."
)
_NOTE = """This conversation is isolated in a git worktree: {where}. File tools take the names of \
the folder and reach the worktree. Commands start in the worktree; use relative names in them. \
{lacks} The user applies your changes from there."""
_NOTES = "worktrees.json"
_EXECUTABLE = 0o100


class _Tree(Struct, frozen=True):
    """The worktree of one open folder."""

    folder: str
    """Its real path."""
    top: str
    """The user's repository."""
    tree: str
    below: str
    """Where the open folder is in its repository."""
    commit: str

    @property
    def place(self) -> Path:
        return Path(self.tree, self.below)


class _Trees(Struct):
    branch: str
    trees: list[_Tree] = field(default_factory=list[_Tree])
    bases: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Where a change begins with something else than the commit: the content, by hash."""


class Worktree:
    """Implements `isolated_files.IsolatedFiles`."""

    def __init__(self, host: Spawner, folders: Sequence[Path], place: Path) -> None:
        self._host = host
        self._folders = folders
        self._place = place
        self._lock = threading.RLock()
        self._notes = IsolationState(place, _NOTES)
        self._trees = self._notes.load(_parse_trees)

    @property
    def notice(self) -> tuple[str, str, str]:
        """See `isolated_files.IsolatedFiles`."""
        trees = self._current().trees
        where = ", ".join(f"{printable(tree.place)} for {printable(tree.folder)}" for tree in trees)
        note = _NOTE.format(where=where, lacks=LACKS)
        return f"Isolated in a git worktree, branch {self.branch}", f"{where}. {LACKS}", note

    @property
    def branch(self) -> str:
        return f"oh/{self._place.name[:12]}"

    def open_root(self, folder: Path, documents: Documents) -> int:
        self.begin(documents)
        try:
            return os.open(self.for_programs(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as exc:
            raise ToolError(f"the worktree of {quoted(folder)} is gone: {exc.strerror}") from exc

    def for_programs(self, path: Path) -> Path:
        real = real_path(path)
        tree = self._tree_of(real)
        return tree.place / real.relative_to(tree.folder)

    def begin(self, documents: Documents) -> None:
        """Make it, with the changes that the user has not committed."""
        with self._lock:
            if self._trees is not None:
                return
            notes = _Trees(self.branch)
            for number, folder in enumerate(self._folders):
                notes.trees.append(self._tree(folder, number))
            self._trees = notes
            for tree in notes.trees:
                names = self._changed_names(Path(tree.folder), "HEAD")
                self.settle([Path(tree.folder, name) for name in names], documents)
            self.settle([*documents.unsaved_texts()], documents)

    def end(self, documents: Documents) -> None: ...

    def pending_changes(self, documents: Documents) -> PendingFiles:
        changes, left_out = dict[Path, FileChange](), dict[Path, str]()
        with self._lock:
            for tree in self._current().trees:
                names = self._changed_names(tree.place, tree.commit)
                content_by_name = self._committed_contents(tree, names)
                for name in names:
                    path = Path(tree.folder, name)
                    pending_change = self._change(tree, name, path, content_by_name.get(name))
                    if pending_change is None:
                        continue
                    change, before, after = pending_change
                    if why := why_not_applied(change):
                        left_out[path] = why
                    else:
                        changes[path] = describe_change(documents, path, change, before, after)
        return PendingFiles(changes, left_out)

    def settle(self, paths: Sequence[Path], documents: Documents) -> None:
        with self._lock:
            for path in paths:
                data = self._as_on_disk(path, documents)
                self._current().bases[str(path)] = None if data is None else self._notes.put(data)
            self._keep_notes()

    def take_out(self, names: Mapping[Path, Sequence[Path]]) -> None: ...

    def rebase(self, path: Path, text: str) -> None:
        with self._lock:
            self._current().bases[str(path)] = self._notes.put(text.encode())
            self._keep_notes()

    def remove(self) -> None:
        """Remove the worktrees; a branch with commits of its own stays."""
        for tree in self._trees.trees if self._trees else ():
            folder = Path(tree.top)
            with suppress(ToolError):
                self._git(folder, "worktree", "remove", "--force", tree.tree)
                if self._git(folder, "rev-parse", self.branch).decode().strip() == tree.commit:
                    self._git(folder, "branch", "-D", self.branch)
        shutil.rmtree(self._place, ignore_errors=True)

    def _current(self) -> _Trees:
        if self._trees is None:
            return _Trees(self.branch)
        return self._trees

    def _tree_of(self, path: Path) -> _Tree:
        trees = [tree for tree in self._current().trees if path.is_relative_to(tree.folder)]
        if not trees:
            raise ToolError(f"{quoted(path)} is in no worktree of this conversation")
        return max(trees, key=lambda tree: len(tree.folder))

    def _tree(self, folder: Path, number: int) -> _Tree:
        top = Path(os.fsdecode(self._git(folder, "rev-parse", "--show-toplevel")).rstrip("\n"))
        commit = self._git(folder, "rev-parse", "HEAD^{commit}").decode().strip()
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        tree = self._place / str(number)
        branch = self.branch if number == 0 else f"{self.branch}-{number}"
        self._git(folder, "worktree", "add", "--quiet", "-b", branch, str(tree), commit)
        return _Tree(str(folder), str(top), str(tree), str(folder.relative_to(top)), commit)

    def _changed_names(self, folder: Path, commit: str) -> list[str]:
        """Return what differs from a commit below a folder, but for what git ignores."""
        tracked_names = self._git(
            folder, "diff", "--name-only", "-z", "--no-renames", "--relative", commit, "--", "."
        )
        new = self._git(folder, "ls-files", "-z", "-o", "--exclude-standard")
        names = os.fsdecode(tracked_names + new).split("\0")
        return sorted({name for name in names if name and not name.endswith("/")})

    def _committed_contents(
        self, tree: _Tree, names: Sequence[str]
    ) -> dict[str, tuple[int, bytes]]:
        """Return mode and content of those names that the commit has."""
        files: dict[str, tuple[int, bytes]] = {}
        output = self._git(tree.place, "ls-tree", "-r", "-z", tree.commit, "--", ".")
        name_set = set(names)
        rows = (row.split("\t", 1) for row in os.fsdecode(output).split("\0") if row)
        oids = {name: head.split() for head, name in rows if name in name_set}
        for name, (mode, kind, oid) in oids.items():
            if kind == "blob":
                files[name] = (int(mode, 8), self._git(tree.place, "cat-file", "blob", oid))
        return files

    def _change(
        self, tree: _Tree, name: str, path: Path, committed_content: tuple[int, bytes] | None
    ) -> tuple[Change, bytes | None, bytes | None] | None:
        after, new = _entry_and_content(tree.place, name)
        mode, data = committed_content or (0o100644, None)
        bases = self._current().bases
        if str(path) in bases:
            data = self._notes.content(bases[str(path)])
        before = None if data is None else _entry(mode, data)
        if after is not None and before is not None and after.kind == before.kind == "file":
            is_same = not (after.mode ^ before.mode) & _EXECUTABLE
            before = before if not is_same else OverlayEntry("file", after.mode, before.size)
        if data == new and before == after:
            return None
        return Change(Path(name), before, after, is_stale=False), data, new

    def _as_on_disk(self, path: Path, documents: Documents) -> bytes | None:
        """Give the worktree what the user sees at a path; return that content."""
        target, unsaved_text = self.for_programs(path), documents.unsaved_texts().get(path)
        entry, data = _entry_and_content(path.parent, path.name)
        if unsaved_text is not None:
            data = documents.encode(path, unsaved_text)
            entry = entry or OverlayEntry("file", 0o644, len(data))
        with suppress(FileNotFoundError):
            target.unlink()
        if entry is None or data is None:
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "link":
            target.symlink_to(os.fsdecode(data))
        else:
            target.write_bytes(data)
            target.chmod(entry.mode)
        return data

    def _git(self, folder: Path, *words: str) -> bytes:
        try:
            result = run_git(self._host, *words, cwd=folder)
        except ToolError as exc:
            raise ToolError(f"the worktree cannot be used: {exc.message}") from exc
        if result.exit_code != 0:
            raise ToolError(f"`git {words[0]}` ended with {result.exit_code} in {quoted(folder)}")
        return result.stdout

    def _keep_notes(self) -> None:
        if self._trees is not None:
            self._notes.store(to_builtins(self._trees))


def has_commit(host: Spawner, folder: Path) -> bool:
    """Whether a folder is in a repository from which a worktree can be made."""
    try:
        words = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return run_git(host, *words, cwd=folder).exit_code == 0
    except ToolError:
        return False


def _entry_and_content(folder: Path, name: str) -> tuple[OverlayEntry | None, bytes | None]:
    """Return what stands under a name below a folder, without following a link."""
    try:
        with layer.open_folder(folder) as root, layer.open_named(root, name) as place:
            entry = entry_of(root, name, os.fstat(place))
        is_large = entry is not None and entry.size > MAX_BYTES
        return entry, None if is_large else content(folder, Path(name), entry)
    except OSError:
        return None, None


def _entry(mode: int, data: bytes) -> OverlayEntry:
    """Return the entry of what git keeps with this mode."""
    if stat.S_ISLNK(mode):
        return OverlayEntry("link", 0o777, 0, os.fsdecode(data))
    return OverlayEntry("file", stat.S_IMODE(mode), len(data))


def _parse_trees(record: Json) -> _Trees:
    trees = [_Tree(**tree) for tree in record["trees"]]
    return _Trees(record["branch"], trees, record["bases"])
