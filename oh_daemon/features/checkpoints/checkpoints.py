"""Snapshots of the open folders, so that changes made by commands can be found and taken back.

They lie in a bare git repository in the conversation's folder, with one index per folder. The
user's repository is read, for its ignore rules and its objects, but never written. Without git, or
when a folder is too big, there is no checkpoint, and `problem` says why.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.notices import warn
from oh_daemon.kernel.ports import Caveat
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.events import CheckpointCreated
from oh_daemon.system.environment import SAFE_GIT, clean_env_without_git
from oh_daemon.system.git import top_of
from oh_daemon.system.spawner import Spawner, input_file, output_file, written_to
from oh_daemon.workspace.files import MAX_TEXT_BYTES, parse_text, read_plain
from oh_daemon.workspace.paths import Folders, path_from_uri, real_path, uri_from_path
from oh_daemon.workspace.text_changes import with_newlines

logger = logging.getLogger(__name__)

_MAX_FILES = 50_000
_MAX_SAID = 400
"""Of what git says of an error, in bytes."""
_MAX_BYTES = 1 << 30
_MAX_OUTPUT_BYTES = (2 << 30) - (1 << 12)
"""No read takes more; see read(2)."""
_MAX_IGNORES_BYTES = 1 << 20
_TIMEOUT_S = 10.0
_LATE_S = 0.5
"""The timeout of git after an interrupt, when a turn must end soon."""
_OURS = (".openhands/conversations/", ".openhands/chat/")
_CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = true
\tcompression = 1
\thooksPath = /dev/null
\tfsmonitor = false
"""
# Files are kept byte for byte, whatever attributes and filters the project sets.
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding\n"

_NO_CHECKPOINTS = "Commands leave no checkpoints here"
"""Title of the notice that what commands change cannot be taken back."""

Trees = dict[str, str]
"""The name of the git tree in the store, by the URI of its folder."""

Saves = Mapping[Path, str]
"""The texts that the user has saved, by real path."""


class FileBlob(Struct, frozen=True):
    """A file as it was: its git mode and the id of its content."""

    mode: str
    oid: str


class FileDifference(Struct, frozen=True):
    """A file that differs between two checkpoints; None means no file."""

    path: Path
    before: FileBlob | None
    after: FileBlob | None


class Checkpoints(Feature):
    """The checkpoints of one conversation. Safe from any thread."""

    def __init__(
        self,
        store: Path,
        folders: Folders,
        spawner: Spawner,
        note_saves: Callable[[], Callable[[], Saves]] | None = None,
    ) -> None:
        """`note_saves` is the method of `kernel.editor_ports.Editor`."""
        self._note_saves = note_saves or (lambda: dict[Path, str])
        self._store = store
        self._folders = folders
        self._spawner = spawner
        self._lock = threading.Lock()
        self._trees: Trees = {}
        self.is_off = False
        """Set once a folder cannot be kept, so that later commands do not wait for another try."""
        self.problem: str | None = None
        """Why there is no checkpoint, or what is missing from it; for people."""

    def take(self, cancel: CancelToken) -> Trees | None:
        """Keep what the folders hold now; returns None when that is not possible."""
        with self._lock:
            if self.is_off:
                return None
            self.problem = None
            try:
                roots = dict.fromkeys(map(_top_of, self._folders.roots))
                self._prepare(tuple(roots))
                trees: Trees = {}
                for root in self._folders.roots:
                    self._take_folder(_top_of(root), root, trees, cancel)
            except (ToolError, OSError) as exc:
                self.problem = f"what commands change cannot be taken back here: {exc}"
                # After an interrupt the failure may only be due to the short timeout.
                self.is_off = not cancel.is_cancelled
                return None
            return trees

    def report(self, conversation: Conversation, _offered: Container[str]) -> None:
        """Warn when there are no checkpoints."""
        if self.is_off:
            warn(conversation.journal, Caveat("noCheckpoints", _NO_CHECKPOINTS, self.problem))

    def watch(self, cancel: CancelToken) -> Callable[[], CheckpointCreated | None]:
        """Take a checkpoint now; the returned function takes another and reports what changed."""
        before = self.take(cancel)
        saves_since = self._note_saves()

        def end_watch() -> CheckpointCreated | None:
            after = self.take(cancel) if before else None
            saves = saves_since()
            if before is None or after is None or after == before:
                return None
            try:
                return self._make_event(before, after, saves)
            except ToolError as exc:
                logger.warning("no checkpoint: %s", exc)
                return None

        return end_watch

    def _make_event(self, before: Trees, after: Trees, saves: Saves) -> CheckpointCreated | None:
        """Return None when the only differences are files that the user saved."""
        changes = self.differences(before, after)
        blobs: dict[str, str] = {}
        n_files = len(changes)
        for each in changes:
            if (text := saves.get(real_path(each.path))) is not None:
                blobs[uri_from_path(each.path)] = self._write_blob(text)
                n_files -= self._has_text(each.after, text)
        if not n_files:
            return None
        return CheckpointCreated(before=before, after=after, n_files=n_files, saved=blobs or None)

    def _write_blob(self, text: str) -> str:
        command = ("hash-object", "-w", "--stdin")
        data = text.encode("utf-8", "surrogatepass")
        return self._git(self._store, *command, stdin=data).decode().strip()

    def _has_text(self, blob: FileBlob | None, text: str) -> bool:
        file_text = parse_text(self.contents([blob.oid]).get(blob.oid, b"")) if blob else None
        return file_text is not None and with_newlines(file_text.text) == with_newlines(text)

    def differences(self, before: Trees, after: Trees) -> list[FileDifference]:
        """Return the files that changed in between. Raises `ToolError`."""
        changes: list[FileDifference] = []
        for uri in before.keys() & after.keys():
            root, old, new = path_from_uri(uri), before[uri], after[uri]
            if root is not None and old != new:
                output = self._git(root, "diff-tree", "-r", "-z", "--no-renames", "--raw", old, new)
                changes += _parse_differences(root, output)
        return changes

    def contents(self, oids: Sequence[str]) -> dict[str, bytes]:
        """Return the bytes of those objects that still exist, by id. Raises `ToolError`."""
        if not oids:
            return {}
        names = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
        output = self._git(self._store, "cat-file", "--batch", stdin=names)
        return dict(_parse_contents(output))

    def _prepare(self, tops: Sequence[Path]) -> None:
        if (self._store / "HEAD").exists():
            return
        for name in ("objects/info", "refs", "info"):
            (self._store / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        patterns, objects = [*_OURS], list[str]()
        for top in tops:
            facts = self._facts_of(top)
            objects += filter(None, facts[:1])
            patterns += [_text_of(Path(name)) for name in facts[1:] if name]
        (self._store / "objects/info/alternates").write_text("".join(f"{o}\n" for o in objects))
        (self._store / "info/exclude").write_text("\n".join(patterns) + "\n", "utf-8")
        (self._store / "info/attributes").write_text(_ATTRIBUTES)
        (self._store / "config").write_text(_CONFIG)
        # Written last, since from then on the folder counts as a repository.
        (self._store / "HEAD").write_text("ref: refs/heads/none\n")

    def _facts_of(self, top: Path) -> list[str]:
        """Return a repository's objects folder, and its ignore files other than .gitignore."""
        if not (top / ".git").exists():
            return []
        options = ("rev-parse", "--path-format=absolute", "--show-object-format")
        paths = ("--git-path", "objects", "--git-path", "info/exclude")
        lines = (
            self._run((*SAFE_GIT, *options, *paths), top, {})
            .decode("utf-8", "replace")
            .splitlines()
        )
        excludes = ("config", "--type=path", "--default", "", "--get", "core.excludesFile")
        own = self._run((*SAFE_GIT, *excludes), top, {}).decode("utf-8", "replace").strip()
        # Objects of another format cannot be shared.
        return [lines[1] if lines[0] == "sha1" else "", *lines[2:], own]

    def _take_folder(self, top: Path, folder: Path, trees: Trees, cancel: CancelToken) -> None:
        """Add what differs from the last checkpoint, here and in the repositories inside."""
        # Only this method writes the index, so a lock on it was left by a git that was killed.
        Path(f"{self._index_of(top)}.lock").unlink(missing_ok=True)
        below = os.path.relpath(folder, top)
        list_command = ("ls-files", "-z", "-o", "-m", "-d", "--exclude-standard", "--", below)
        paths = os.fsdecode(self._git(top, *list_command, cancel=cancel)).split("\0")
        names = list(dict.fromkeys(name for name in paths if name))
        changed_paths = [name for name in names if not name.endswith("/")]
        fitting = self._fitting(top, changed_paths)
        uri = uri_from_path(top)
        if fitting:
            self._trees.pop(uri, None)
            index_command = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            data = b"".join(os.fsencode(name) + b"\0" for name in fitting)
            self._git(top, *index_command, stdin=data, cancel=cancel)
        if fitting or uri not in self._trees:
            self._trees[uri] = self._git(top, "write-tree", cancel=cancel).decode().strip()
        trees[uri] = self._trees[uri]
        for name in names:
            if name.endswith("/") and (top / name / ".git").exists():
                self._take_folder(top / name[:-1], top / name[:-1], trees, cancel)

    def _fitting(self, top: Path, names: Sequence[str]) -> list[str]:
        """Return the files that can be kept; sets `problem` when some are too big or unreadable.

        Raises `ToolError` when the rest is too much altogether.
        """
        sizes = {name: _size_of(top / name) for name in names}
        fitting = [name for name in names if sizes[name] <= MAX_TEXT_BYTES]
        if len(fitting) > _MAX_FILES or sum(sizes[name] for name in fitting) > _MAX_BYTES:
            raise ToolError(
                f"{len(fitting)} files are too much to keep; list what is generated in .gitignore"
            )
        if left_out := len(names) - len(fitting):
            limit = f"{MAX_TEXT_BYTES >> 20} MiB"
            self.problem = f"left out, for above {limit} or not readable: {left_out} files"
        return fitting

    def _git(
        self, top: Path, *words: str, stdin: bytes = b"", cancel: CancelToken | None = None
    ) -> bytes:
        variables = {
            "GIT_DIR": str(self._store),
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": str(self._index_of(top)),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
        }
        return self._run(("git", *words), top, variables, stdin, cancel)

    def _index_of(self, top: Path) -> Path:
        return self._store / f"index-{hashlib.sha256(os.fsencode(top)).hexdigest()[:16]}"

    def _run(
        self,
        argv: Sequence[str],
        cwd: Path,
        variables: Mapping[str, str],
        stdin: bytes = b"",
        cancel: CancelToken | None = None,
    ) -> bytes:
        """Run git and return its output. Raises `ToolError` and `Cancelled`."""
        env = {**clean_env_without_git(os.environ), **variables}
        late = cancel is not None and cancel.is_cancelled
        with ExitStack() as stack:
            out, err = output_file(stack, _MAX_OUTPUT_BYTES), output_file(stack)
            fds = [input_file(stdin, stack), out, err]
            process = self._spawner.spawn(argv, cwd=cwd, env=env, fds=fds)
            code = process.wait(_LATE_S if late else _TIMEOUT_S, None if late else cancel)
            if code is None:
                process.kill_tree(0.1)
                if cancel is not None and not late:
                    cancel.raise_if_cancelled()
                raise ToolError("git takes too long in this folder")
            if code != 0:
                why = " ".join(written_to(err)[:_MAX_SAID].decode("utf-8", "replace").split())
                raise ToolError(f"git ended with {code}: {why}")
            return written_to(out)


def _top_of(folder: Path) -> Path:
    """Return the repository that holds the folder, as its .gitignore counts; else the folder."""
    return top_of(folder) or folder


def _size_of(path: Path) -> int:
    """Return the size in bytes: 0 for a missing file, above any limit for an unreadable one."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if path.is_symlink() or os.access(path, os.R_OK) else MAX_TEXT_BYTES + 1


def _text_of(path: Path) -> str:
    try:
        return read_plain(path, _MAX_IGNORES_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _parse_differences(root: Path, output: bytes) -> Iterator[FileDifference]:
    fields = output.split(b"\0")
    for head, name in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old, new, _ = head.decode().lstrip(":").split(" ")
        sides = [
            None if not oid.strip("0") else FileBlob(mode, oid)
            for mode, oid in ((old_mode, old), (new_mode, new))
        ]
        yield FileDifference(root / os.fsdecode(name), *sides)


def _parse_contents(output: bytes) -> Iterator[tuple[str, bytes]]:
    """Each entry is `oid type size`, a newline, the bytes, a newline; or `oid missing`."""
    place = 0
    while place < len(output):
        end = output.index(b"\n", place)
        oid, *facts = output[place:end].decode().split(" ")
        place = end + 1
        if len(facts) == 2:  # noqa: PLR2004 - type and size.
            size = int(facts[1])
            yield oid, output[place : place + size]
            place += size + 1
