"""The files that differ in the layers of a sandbox: found, taken out, and as changes with contents.

Both contents of a change are kept as blobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from oh_daemon.features.pending_changes.upper_layer import Change, ChangeSet, OverlayEntry, collect
from oh_daemon.features.sandbox.layer import read
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.sandbox.removal import take_out
from oh_daemon.protocol.items import FileChange
from oh_daemon.system.git import find_ignored
from oh_daemon.system.proc import find_overlay_process
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.databases import is_journal_name
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import MAX_TEXT_BYTES, FileText
from oh_daemon.workspace.paths import uri_from_path
from oh_daemon.workspace.text_changes import with_newlines

MAX_BYTES = MAX_TEXT_BYTES


class Layers:
    """The layers of a sandbox over open folders. Blocks; raises `OSError` and `ToolError`."""

    def __init__(self, overlay: OverlaySandbox, host: Spawner, folders: Sequence[Path]) -> None:
        self._overlay = overlay
        self._host = host
        self._folders = folders

    def split(self, path: Path) -> tuple[Path, Path]:
        """Return the open folder of a real path, and its name there."""
        folders = [folder for folder in self._folders if path.is_relative_to(folder)]
        folder = max(folders, key=lambda folder: len(folder.parts))
        return folder, path.relative_to(folder)

    def read(self, path: Path) -> bytes | None:
        """Return what the layer has of a file; None if it has no regular one."""
        folder, name = self.split(path)
        return _content_of_file(self._overlay.upper(folder), name)

    def place(self, path: Path) -> Path:
        """Return where the layer has what is at a path; a command may change that."""
        folder, name = self.split(path)
        return self._overlay.upper(folder) / name

    def write(self, path: Path, data: bytes) -> None:
        """Write a file inside, so that watchers there hear of it."""
        folder, name = self.split(path)
        self._overlay.inside(folder).write(name, data)

    def collect(
        self,
        folder: Path,
        handed_in: Mapping[Path, str],
        since_ns: int,
        list_open: Callable[[], Collection[Path]] = tuple,
    ) -> ChangeSet:
        """Return what differs below an open folder, and take out what is no change.

        `handed_in` has hashes by real path; for the others see `changes.collect`.
        """
        is_git = folder in self._overlay.git_dirs
        below = {path: sha256 for path, sha256 in handed_in.items() if path.is_relative_to(folder)}
        collection = collect(
            self._overlay.upper(folder),
            folder,
            handed_in={path.relative_to(folder): sha256 for path, sha256 in below.items()},
            since_ns=since_ns,
            list_open=list_open,
            are_ignored=None if is_git else partial(find_ignored, self._host, folder),
        )
        self.take_out(folder, collection.same)
        return collection

    def take_out(self, folder: Path, names: Sequence[Path]) -> None:
        """Let the disk be seen again under these names; `OverlaySandbox.refresh` must follow."""
        if names:
            root = self._overlay.spawner.root
            processes = find_overlay_process(root, folder) if root is not None else None
            take_out(self._overlay.upper(folder), folder, names, processes)


def why_not_applied(change: Change) -> str | None:
    """Return why a change stays in the sandbox, whatever its content."""
    sizes = [entry.size for entry in (change.before, change.after) if entry]
    if "other" in _kinds(change):
        return "it is a pipe, a socket or a device"
    if max(sizes, default=0) > MAX_BYTES:
        return f"it has more than {MAX_BYTES >> 20} MiB; copy it outside the sandbox"
    return None


def content(top: Path, name: Path, entry: OverlayEntry | None) -> bytes | None:
    """Return the bytes of a file below `top`, or the target of a link. Raises `OSError`."""
    match entry:
        case OverlayEntry(kind="link", target=target):
            return os.fsencode(target or "")
        case OverlayEntry(kind="file"):
            return read(top, name, MAX_BYTES)
        case _:
            return None


def content_on_disk(path: Path) -> bytes | None:
    """Return what a file has; None if it is no regular file or cannot be read."""
    return _content_of_file(path.parent, Path(path.name))


def _content_of_file(top: Path, name: Path) -> bytes | None:
    try:
        return read(top, name, MAX_BYTES)
    except OSError:
        return None


def describe_change(
    documents: Documents, path: Path, change: Change, before: bytes | None, after: bytes | None
) -> FileChange:
    """Return the change from one content to another; of a link, the content is its target."""
    parse = documents.files.parse
    old, new = parse(path, before or b""), parse(path, after or b"")
    # An empty journal belongs to a database, which is no text.
    is_journal = not (before or after) and is_journal_name(path.name)
    is_file = _kinds(change) <= {"file"} and not is_journal
    is_text = is_file and old and new and _same_form(old, new, change)
    if is_text and old and new:
        return _text_change(documents, path, change, None if before is None else old, new)
    return _raw_change(documents, path, change, before, after)


def _text_change(
    documents: Documents, path: Path, change: Change, old: FileText | None, new: FileText
) -> FileChange:
    history, after = documents.history, change.after
    is_chmod = change.before is not None and after is not None and _mode_changed(change)
    return FileChange(
        uri=_uri(documents, path),
        op=_op(change),
        added=0,
        removed=0,
        sha256_before=history.put(old.text) if old else None,
        sha256_after=history.put(new.text) if after else None,
        form=new.form.model_copy(update={"mode": after.mode}) if after else None,
        mode_after=after.mode if after and is_chmod else None,
    )


def _raw_change(
    documents: Documents, path: Path, change: Change, before: bytes | None, after: bytes | None
) -> FileChange:
    put_blob = documents.history.blobs.put_blob
    kind = (change.after or change.before or OverlayEntry("file", 0, 0)).kind
    raw: Literal["bytes", "link", "folder"] = "link" if kind == "link" else "bytes"
    return FileChange(
        uri=_uri(documents, path),
        op=_op(change),
        added=0,
        removed=0,
        raw="folder" if kind == "folder" else raw,
        sha256_before=None if before is None else put_blob(before),
        sha256_after=None if after is None else put_blob(after),
        mode_before=change.before.mode if change.before else None,
        mode_after=change.after.mode if change.after else None,
    )


def _uri(documents: Documents, path: Path) -> str:
    return uri_from_path(documents.folders.as_opened(path))


def _kinds(change: Change) -> set[str]:
    return {entry.kind for entry in (change.before, change.after) if entry}


def _op(change: Change) -> Literal["add", "modify", "delete"]:
    if change.after is None:
        return "delete"
    return "add" if change.before is None else "modify"


def _mode_changed(change: Change) -> bool:
    return bool(change.before and change.after and change.before.mode != change.after.mode)


def _same_form(old: FileText, new: FileText, change: Change) -> bool:
    """Return whether a change of the text alone leads from one to the other."""
    if change.before is None or change.after is None:
        return True
    if with_newlines(old.text) == with_newlines(new.text):
        return False  # Line ends, encoding or permissions have changed.
    forms = (
        (text.encoding, text.likely_encodings, text.bom, _line_end(text)) for text in (old, new)
    )
    return len(set(forms)) == 1


def _line_end(text: FileText) -> str:
    if text.has_mixed_line_ends:
        return "mixed"
    return "\r\n" if "\r\n" in text.text else "\n"
