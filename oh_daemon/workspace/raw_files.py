"""Files that are not edited as text: bytes, links, permissions and empty folders, put there whole.

Invariant: nothing is replaced that is not as it was when the change was planned. What is open in
the editor with unsaved text is not written.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Literal

from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.protocol.items import FileChange
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import PERMISSIONS, sha256_of
from oh_daemon.workspace.paths import quoted


class RawFiles:
    """Each `path` comes from `Folders.resolve` for its folder; its last name is never followed."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._files = documents.files

    def is_done(self, path: Path, change: FileChange) -> bool:
        """Return whether the disk is as after the change."""
        if not _same_mode(path, change):
            return False
        return self._is_unchanged(path, change.raw, change.sha256_after)

    def make(self, path: Path, change: FileChange) -> None:
        """Make the change. Raises `ToolError` when the disk is not as before it, and `OSError`."""
        document = self._documents.document(path)
        if document is not None and change.raw == "bytes" and self._is_unsaved(path):
            raise _unsaved_error(path)
        if not self._is_unchanged(path, change.raw, change.sha256_before):
            self._files.sweep(path)  # A kill may have cut an append short.
            if not self._is_unchanged(path, change.raw, change.sha256_after):
                raise StaleDocumentError(f"{quoted(path)} changed meanwhile")
            change = change.model_copy(update={"sha256_before": change.sha256_after})
        match change.raw:
            case "link":
                self._make_link(path, change)
            case "folder":
                self._make_folder(path, change)
            case _:
                self._make_bytes(path, change)
        if change.op != "delete" and change.raw != "link":
            self.set_mode(path, change.mode_after)

    def append(self, path: Path, data: bytes) -> None:
        """Write at the end of a file that others write to. Raises `ToolError`."""
        if self._is_unsaved(path):
            raise _unsaved_error(path)
        self._files.append(path, data)

    def set_mode(self, path: Path, mode: int | None) -> None:
        """Set the permissions of a file or folder; None leaves them.

        A folder keeps its setgid and sticky bits, such as those that it has inherited.
        """
        if mode is None:
            return
        with self._folders.holding(path) as folder:
            descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                now = os.fstat(descriptor).st_mode
                special = stat.S_IMODE(now) & ~PERMISSIONS if stat.S_ISDIR(now) else 0
                os.fchmod(descriptor, special | (mode & PERMISSIONS))
            finally:
                os.close(descriptor)

    def _make_bytes(self, path: Path, change: FileChange) -> None:
        after = change.sha256_after and self._stored_bytes(change.sha256_after)
        if change.sha256_before == change.sha256_after:
            return  # Its permissions alone have changed.
        if after is None or change.sha256_after is None:
            self._files.delete(path, change.sha256_before or "")
        elif change.sha256_before is None:
            self._files.create(path, after or b"", change.mode_after)
        else:
            self._files.replace(path, after or b"", change.sha256_before)

    def _make_link(self, path: Path, change: FileChange) -> None:
        with self._folders.holding(path, create=True) as folder:
            if change.sha256_before is not None:
                os.unlink(path.name, dir_fd=folder)
            if change.sha256_after is not None:
                os.symlink(self._stored_bytes(change.sha256_after), path.name, dir_fd=folder)

    def _make_folder(self, path: Path, change: FileChange) -> None:
        with self._folders.holding(path, create=True) as folder:
            if change.op == "delete":
                os.rmdir(path.name, dir_fd=folder)
            else:
                with suppress(FileExistsError):
                    os.mkdir(path.name, dir_fd=folder)

    def _stored_bytes(self, sha256: str) -> bytes:
        return self._documents.history.blobs.read_blob(sha256)

    def _is_unsaved(self, path: Path) -> bool:
        try:
            return self._documents.look(path).is_unsaved
        except ToolError:
            return False

    def _is_unchanged(self, path: Path, raw: str | None, sha256: str | None) -> bool:
        """Return whether the disk has what this hash stands for; None stands for nothing."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return sha256 is None
        if raw == "folder":
            return stat.S_ISDIR(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return sha256_of(os.fsencode(path.readlink())) == sha256
        is_file = stat.S_ISREG(status.st_mode)
        return is_file and sha256 is not None and sha256_of(path.read_bytes()) == sha256


def reverse(change: FileChange) -> FileChange:
    """Return the change that restores what the disk had before."""
    ops: dict[str, Literal["add", "modify", "delete"]] = {"add": "delete", "delete": "add"}
    return change.model_copy(
        update={
            "op": ops.get(change.op, change.op),
            "sha256_before": change.sha256_after,
            "sha256_after": change.sha256_before,
            "mode_before": change.mode_after,
            "mode_after": change.mode_before,
        }
    )


def _unsaved_error(path: Path) -> EditRejectedError:
    return EditRejectedError(f"{quoted(path)} has unsaved changes of the user; ask to save")


def _same_mode(path: Path, change: FileChange) -> bool:
    if change.mode_after is None or change.op == "delete" or change.raw == "link":
        return True
    with suppress(OSError):
        now = path.lstat().st_mode
        mode = now & PERMISSIONS if stat.S_ISDIR(now) else stat.S_IMODE(now)
        return mode == change.mode_after & PERMISSIONS
    return False
