"""A git worktree for an isolated conversation where there is no view.

It begins with what the user sees, but for what git ignores. Nothing holds the commands in it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.items import FileChange, FileForm
from oh_daemon.sandbox import layer
from oh_daemon.sandbox.changed_files import MAX_BYTES, cannot_land, described
from oh_daemon.sandbox.changes import Change, Entry
from oh_daemon.sandbox.isolated_files import Waiting, replace_file
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import encoded, sha256_of
from oh_daemon.workspace.paths import real_path, shown
from oh_daemon.workspace.spawner import Spawner

LACKS = (
    "It has what git ignores and submodules not, and its path is another one. Nothing keeps"
    " commands from leaving it, so they ask as usual; what they change elsewhere is changed."
)
_NOTE = """This conversation is isolated in a git worktree: {where}. File tools take the names of \
the folder and reach the worktree. Commands start in the worktree; use relative names in them. \
{lacks} The user lands your changes from there."""
_NOTES = "worktrees.json"
_CONTENTS = "began"
_TIMEOUT_S = 60.0
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_EXECUTABLE = 0o100


@dataclass(frozen=True, slots=True)
class _Tree:
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


@dataclass(slots=True)
class _Notes:
    branch: str
    trees: list[_Tree] = field(default_factory=list[_Tree])
    bases: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Where a change begins with something else than the commit: the content, by hash."""


class Worktree:
    """Implements `sandbox.apart.Keep`."""

    def __init__(self, host: Spawner, folders: Sequence[Path], place: Path) -> None:
        self._host = host
        self._folders = folders
        self._place = place
        self._lock = threading.RLock()
        self._notes = _loaded(place)

    @property
    def told(self) -> tuple[str, str, str]:
        """See `sandbox.apart.Keep`."""
        trees = self._known().trees
        where = ", ".join(f"{shown(tree.place)} for {shown(tree.folder)}" for tree in trees)
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
            raise ToolError(f"the worktree of {shown(folder)!r} is gone: {exc.strerror}") from exc

    def for_programs(self, path: Path) -> Path:
        real = real_path(path)
        tree = self._tree_of(real)
        return tree.place / real.relative_to(tree.folder)

    def begin(self, documents: Documents) -> None:
        """Make it, with the changes that the user has not committed."""
        with self._lock:
            if self._notes is not None:
                return
            notes = _Notes(self.branch)
            for number, folder in enumerate(self._folders):
                notes.trees.append(self._made(folder, number))
            self._notes = notes
            for tree in notes.trees:
                names = self._changed(Path(tree.folder), "HEAD")
                self.settle([Path(tree.folder, name) for name in names], documents)
            self.settle([*documents.unsaved_texts()], documents)

    def end(self, documents: Documents) -> None: ...

    def waiting(self, documents: Documents) -> Waiting:
        changes, left_out = dict[Path, FileChange](), dict[Path, str]()
        with self._lock:
            for tree in self._known().trees:
                names = self._changed(tree.place, tree.commit)
                committed = self._committed(tree, names)
                for name in names:
                    path = Path(tree.folder, name)
                    found = self._change(tree, name, path, committed.get(name))
                    if found is None:
                        continue
                    change, before, after = found
                    if why := cannot_land(change):
                        left_out[path] = why
                    else:
                        changes[path] = described(documents, path, change, before, after)
        return Waiting(changes, left_out)

    def settle(self, paths: Sequence[Path], documents: Documents) -> None:
        with self._lock:
            for path in paths:
                data = self._as_on_disk(path, documents)
                self._known().bases[str(path)] = None if data is None else self._put(data)
            self._keep_notes()

    def take_out(self, names: Mapping[Path, Sequence[Path]]) -> None: ...

    def rebase(self, path: Path, text: str) -> None:
        with self._lock:
            self._known().bases[str(path)] = self._put(text.encode())
            self._keep_notes()

    def remove(self) -> None:
        """Remove the worktrees; a branch with commits of its own stays."""
        for tree in self._notes.trees if self._notes else ():
            folder = Path(tree.top)
            with suppress(ToolError):
                self._git(folder, "worktree", "remove", "--force", tree.tree)
                if self._git(folder, "rev-parse", self.branch).decode().strip() == tree.commit:
                    self._git(folder, "branch", "-D", self.branch)
        shutil.rmtree(self._place, ignore_errors=True)

    def _known(self) -> _Notes:
        if self._notes is None:
            return _Notes(self.branch)
        return self._notes

    def _tree_of(self, path: Path) -> _Tree:
        trees = [tree for tree in self._known().trees if path.is_relative_to(tree.folder)]
        if not trees:
            raise ToolError(f"{shown(path)!r} is in no worktree of this conversation")
        return max(trees, key=lambda tree: len(tree.folder))

    def _made(self, folder: Path, number: int) -> _Tree:
        top = Path(os.fsdecode(self._git(folder, "rev-parse", "--show-toplevel")).rstrip("\n"))
        commit = self._git(folder, "rev-parse", "HEAD^{commit}").decode().strip()
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        tree = self._place / str(number)
        branch = self.branch if number == 0 else f"{self.branch}-{number}"
        self._git(folder, "worktree", "add", "--quiet", "-b", branch, str(tree), commit)
        return _Tree(str(folder), str(top), str(tree), str(folder.relative_to(top)), commit)

    def _changed(self, folder: Path, commit: str) -> list[str]:
        """Return what differs from a commit below a folder, but for what git ignores."""
        tracked = self._git(
            folder, "diff", "--name-only", "-z", "--no-renames", "--relative", commit, "--", "."
        )
        new = self._git(folder, "ls-files", "-z", "-o", "--exclude-standard")
        names = os.fsdecode(tracked + new).split("\0")
        return sorted({name for name in names if name and not name.endswith("/")})

    def _committed(self, tree: _Tree, names: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        """Return mode and content of those names that the commit has."""
        found: dict[str, tuple[int, bytes]] = {}
        listed = self._git(tree.place, "ls-tree", "-r", "-z", tree.commit, "--", ".")
        wanted = set(names)
        rows = (row.split("\t", 1) for row in os.fsdecode(listed).split("\0") if row)
        oids = {name: head.split() for head, name in rows if name in wanted}
        for name, (mode, kind, oid) in oids.items():
            if kind == "blob":
                found[name] = (int(mode, 8), self._git(tree.place, "cat-file", "blob", oid))
        return found

    def _change(
        self, tree: _Tree, name: str, path: Path, committed: tuple[int, bytes] | None
    ) -> tuple[Change, bytes | None, bytes | None] | None:
        after, content = _found(tree.place, name)
        mode, data = committed or (0o100644, None)
        bases = self._known().bases
        if str(path) in bases:
            sha256 = bases[str(path)]
            data = None if sha256 is None else (self._place / _CONTENTS / sha256).read_bytes()
        before = None if data is None else _entry(mode, data)
        if after is not None and before is not None and after.kind == before.kind == "file":
            is_same = not (after.mode ^ before.mode) & _EXECUTABLE
            before = before if not is_same else Entry("file", after.mode, before.size)
        if data == content and before == after:
            return None
        return Change(Path(name), before, after, is_stale=False), data, content

    def _as_on_disk(self, path: Path, documents: Documents) -> bytes | None:
        """Give the worktree what the user sees at a path; return that content."""
        target, unsaved = self.for_programs(path), documents.unsaved_texts().get(path)
        entry, data = _found(path.parent, path.name)
        if unsaved is not None:
            form = documents.look(path).file
            data = form.encode(unsaved) if form else encoded(unsaved, FileForm())
            entry = entry or Entry("file", 0o644, len(data))
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
            done = self._host.run((*_GIT, *words), cwd=folder, timeout_s=_TIMEOUT_S)
        except ToolError as exc:
            raise ToolError(f"the worktree cannot be used: {exc.message}") from exc
        if done.exit_code != 0:
            raise ToolError(f"`git {words[0]}` ended with {done.exit_code} in {shown(folder)!r}")
        return done.stdout

    def _put(self, data: bytes) -> str:
        contents, sha256 = self._place / _CONTENTS, sha256_of(data)
        contents.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (contents / sha256).exists():
            replace_file(contents / sha256, data)
        return sha256

    def _keep_notes(self) -> None:
        if self._notes is not None:
            replace_file(self._place / _NOTES, json.dumps(asdict(self._notes)).encode())


def has_commit(host: Spawner, folder: Path) -> bool:
    """Whether a folder is in a repository from which a worktree can be made."""
    words = (*_GIT, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    try:
        done = host.run(words, cwd=folder, timeout_s=_TIMEOUT_S)
    except ToolError:
        return False
    return done.exit_code == 0


def _found(folder: Path, name: str) -> tuple[Entry | None, bytes | None]:
    """Return what stands under a name below a folder, without following a link."""
    try:
        with layer.opened(folder) as root, layer.named(root, name) as place:
            status = os.fstat(place)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                target = layer.target(root, name) or ""
                return Entry("link", 0o777, 0, target), os.fsencode(target)
            if not stat.S_ISREG(status.st_mode):
                return Entry("other", mode, 0), None
        if status.st_size > MAX_BYTES:
            return Entry("file", mode, status.st_size), None
        return Entry("file", mode, status.st_size), layer.read(folder, Path(name), MAX_BYTES)
    except OSError:
        return None, None


def _entry(mode: int, data: bytes) -> Entry:
    """Return the entry of what git keeps with this mode."""
    if stat.S_ISLNK(mode):
        return Entry("link", 0o777, 0, os.fsdecode(data))
    return Entry("file", stat.S_IMODE(mode), len(data))


def _loaded(place: Path) -> _Notes | None:
    """Return the notes of an earlier run, if there was one."""
    with suppress(OSError, ValueError, TypeError):
        kept: dict[str, Any] = json.loads((place / _NOTES).read_bytes())
        trees = [_Tree(**tree) for tree in kept["trees"]]
        return _Notes(kept["branch"], trees, kept["bases"])
    return None
