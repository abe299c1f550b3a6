"""A sandbox for an isolated conversation: its layers outlive the daemon.

What each change began with is noted as soon as it is seen, since the disk may change later.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from oh_daemon.features.isolation.isolated_files import IsolationState, PendingFiles
from oh_daemon.features.pending_changes.changed_files import (
    MAX_BYTES,
    Layers,
    content,
    describe_change,
    why_not_applied,
)
from oh_daemon.features.pending_changes.git_plan import GitPlan, Repositories
from oh_daemon.features.pending_changes.upper_layer import Change, ChangeSet, OverlayEntry
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.sandbox.storage import remove
from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import FileChange
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import parse_text
from oh_daemon.workspace.text_changes import locate_edits

_NOTES = "began.json"
_RACE = "somebody else changed it outside while it was changed here; discard it, or copy it by hand"


class _Base(Struct, frozen=True):
    """What the disk had under a name before the conversation changed that."""

    kind: Literal["file", "link", "folder", "other", "unknown"] | None
    mode: int = 0
    sha256: str | None = None
    size: int = 0


class _Record(Struct):
    """What is kept beside the layers, by real path."""

    since_ns: int = 0
    """Up to then, all that had changed is in `bases`."""
    git_since_ns: int = 0
    """Git's own files have differed since then at the earliest; 0 if they do not."""
    given_hashes: dict[str, str] = field(default_factory=dict[str, str])
    """Unsaved texts that were put in at the start, by hash."""
    bases: dict[str, _Base] = field(default_factory=dict[str, _Base])


class IsolatedOverlay:
    """Implements `isolated_files.IsolatedFiles`."""

    notice = None

    def __init__(
        self, overlay: OverlaySandbox, host: Spawner, folders: Sequence[Path], place: Path
    ) -> None:
        """`place` is that of the sandbox."""
        self._overlay = overlay
        self._host = host
        self._folders = folders
        self._place = place
        self._lock = threading.RLock()
        self._layers = Layers(overlay, host, folders)
        self._notes = IsolationState(place, _NOTES)
        self._record = self._notes.load(_parse_record)

    def open_root(self, folder: Path, documents: Documents) -> int:
        try:
            self._start(documents)
            return self._overlay.open(folder)
        except OSError as exc:
            raise ToolError(f"the sandbox of the conversation cannot be opened: {exc}") from exc

    def for_programs(self, path: Path) -> Path:
        return path

    def begin(self, documents: Documents) -> None:
        self._start(documents)
        self.end(documents)
        self._overlay.refresh()

    def end(self, documents: Documents) -> None:  # noqa: ARG002 - another keep needs it.
        with self._lock:
            self._note_changes()

    def pending_changes(self, documents: Documents) -> PendingFiles:
        with self._lock:
            return self._pending_changes(documents)

    def settle(self, paths: Sequence[Path], documents: Documents) -> None:
        with self._lock:
            notes = self._current()
            for folder in self._folders:
                below = [path for path in paths if self._layers.split(path)[0] == folder]
                self._layers.take_out(folder, [path.relative_to(folder) for path in below])
            for path in map(str, paths):
                notes.bases.pop(path, None)
                notes.given_hashes.pop(path, None)
            self._give(documents, paths)
            self._keep_notes()
        self._overlay.refresh()

    def take_out(self, names: Mapping[Path, Sequence[Path]]) -> None:
        with self._lock:
            for folder, below in names.items():
                self._layers.take_out(folder, below)
        self._overlay.refresh()

    def rebase(self, path: Path, text: str) -> None:
        with self._lock:
            bases = self._current().bases
            base = bases[str(path)]
            data = self._notes.content(base.sha256) or b""
            old = parse_text(data)
            new = old.encode(_with_line_ends(old.text, text)) if old else text.encode()
            bases[str(path)] = replace(base, sha256=self._notes.put(new), size=len(new))
            self._keep_notes()

    def remove(self) -> None:
        remove(self._place)

    def _start(self, documents: Documents) -> None:
        with self._lock:
            self._overlay.start()
            if self._record is None:
                self._record = _Record(since_ns=time.time_ns())
                self._give(documents, [*documents.unsaved_texts()])
                self._keep_notes()

    def _give(self, documents: Documents, paths: Sequence[Path]) -> None:
        """Put in the unsaved texts of these files, as the editor has them now."""
        texts = documents.unsaved_texts()
        for path in [path for path in paths if path in texts]:
            data = documents.encode(path, texts[path])
            self._overlay.start()
            self._layers.write(path, data)
            self._current().given_hashes[str(path)] = self._notes.put(data)

    def _current(self) -> _Record:
        if self._record is None:
            self._record = _Record(since_ns=time.time_ns())
        return self._record

    def _note_changes(self) -> list[tuple[Path, ChangeSet]]:
        """Return what the layers have, after noting what each new change began with."""
        notes, now = self._current(), time.time_ns()
        rows = [*self._collect_all()]
        folder_changes = [
            (folder, change) for folder, collection in rows for change in collection.changes
        ]
        notes.bases = {
            path: notes.bases.get(path) or self._base(folder, change)
            for folder, change in folder_changes
            for path in [str(folder / change.name)]
        }
        has_git = any(collection.git for _, collection in rows)
        notes.git_since_ns = (notes.git_since_ns or notes.since_ns) if has_git else 0
        notes.since_ns = now
        self._keep_notes()
        return rows

    def _collect_all(self) -> Iterator[tuple[Path, ChangeSet]]:
        notes = self._current()
        for folder in (*self._folders, *self._overlay.git_dirs):
            if not self._overlay.upper(folder).is_dir():
                continue
            hash_by_path = {Path(path): sha256 for path, sha256 in notes.given_hashes.items()}
            collection = self._layers.collect(folder, hash_by_path, notes.since_ns)
            for name in collection.same:
                notes.given_hashes.pop(str(folder / name), None)
            yield folder, collection

    def _base(self, folder: Path, change: Change) -> _Base:
        path, before = folder / change.name, change.before
        if base_hash := self._current().given_hashes.get(str(path)):
            return _Base("file", before.mode if before else 0o644, base_hash)
        if before is None:
            return _Base(None)
        if change.is_stale:
            return _Base("unknown")
        if before.size > MAX_BYTES:
            return _Base(before.kind, before.mode, None, before.size)
        data = content(path.parent, Path(path.name), before)
        sha256 = None if data is None else self._notes.put(data)
        return _Base(before.kind, before.mode, sha256, before.size)

    def _pending_changes(self, documents: Documents) -> PendingFiles:
        changes, left_out = dict[Path, FileChange](), dict[Path, str]()
        rows = self._note_changes()
        of_git = [(folder, collection.git) for folder, collection in rows if collection.git]
        git = self._git_planned(of_git, documents)
        for folder, collection in rows:
            for change in collection.changes:
                path = folder / change.name
                if why := git.refused_files.get(path):
                    left_out[path] = why
                    continue
                base = self._current().bases[str(path)]
                if base.kind == "unknown":
                    left_out[path] = _RACE
                    continue
                since = replace(change, before=self._entry(base))
                if why := why_not_applied(since):
                    left_out[path] = why
                    continue
                after = content(self._overlay.upper(folder), change.name, change.after)
                changes[path] = describe_change(
                    documents, path, since, self._notes.content(base.sha256), after
                )
        names = {folder: [each.name for each in entries] for folder, entries in of_git}
        return PendingFiles(changes, left_out, git, names)

    def _git_planned(
        self, changes_by_folder: Sequence[tuple[Path, Sequence[Change]]], documents: Documents
    ) -> GitPlan:
        if not changes_by_folder:
            return GitPlan()
        self._overlay.start()
        self._overlay.refresh()
        repositories = Repositories.of(self._overlay.spawner, self._host, documents)
        return repositories.plan(changes_by_folder, self._current().git_since_ns)

    def _entry(self, base: _Base) -> OverlayEntry | None:
        if base.kind is None or base.kind == "unknown":
            return None
        target = self._notes.content(base.sha256) if base.kind == "link" else None
        return OverlayEntry(
            base.kind, base.mode, base.size, os.fsdecode(target) if target else None
        )

    def _keep_notes(self) -> None:
        if self._record is not None:
            self._notes.store(to_builtins(self._record))


def _with_line_ends(old: str, text: str) -> str:
    """Return a text with LF line ends with those of another one."""
    located = locate_edits(old, lambda plain: [TextEdit(0, len(plain), text)])
    return located.after


def _parse_record(notes: Json) -> _Record:
    bases = {path: _Base(**base) for path, base in notes["bases"].items()}
    return _Record(notes["since_ns"], notes.get("git_since_ns", 0), notes["given_hashes"], bases)
