"""What one conversation did to files: a record of each change, and how to take it back.

The texts are kept as blobs and the changes in the conversation's items, so undo survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.kernel.ports import EventLog
from oh_daemon.protocol.errors import StorageError, ToolError, UserError
from oh_daemon.protocol.items import FileChange, FileForm
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.hunks import Rewrite
from oh_daemon.workspace.line_diff import TextDiff
from oh_daemon.workspace.paths import Folders, path_from_uri, real_path, uri_from_path
from oh_daemon.workspace.text_changes import (
    Create,
    diff_of,
    locate_edits,
    with_newlines,
)

_EMPTY = sha256_of("")


class EditHistory:
    """The changes per real path, newest last; an undone change is removed."""

    def __init__(self, folders: Folders, blobs: EventLog) -> None:
        """`blobs` keeps texts beyond the life of the process."""
        self._folders = folders
        self.blobs = blobs
        self._changes: dict[Path, list[FileChange]] = {}
        self._listeners: list[Callable[[Path, bool], None]] = []

    def listen(self, on_change: Callable[[Path, bool], None]) -> None:
        """Report the real path of each recorded change, and whether only the editor has it.

        `on_change` must not block.
        """
        self._listeners.append(on_change)

    def describe(
        self, path: Path, before: str | None, after: str | None, diff: TextDiff | None = None
    ) -> FileChange:
        """Return the change from one text to another without storing it; None means no file.

        `diff` is that of the two texts; it is made if it is not known yet.
        """
        diff = diff or diff_of(before, after)
        return FileChange(
            uri=uri_from_path(self._folders.as_opened(path)),
            op="add" if before is None else "delete" if after is None else "modify",
            added=diff.added,
            removed=diff.removed,
            patch=diff.patch(self._folders.name(path)),
            sha256_before=None if before is None else sha256_of(before),
            sha256_after=None if after is None else sha256_of(after),
        )

    def record(
        self,
        path: Path,
        before: str | None,
        after: str | None,
        *,
        is_unsaved: bool,
        form: FileForm | None = None,
        diff: TextDiff | None = None,
    ) -> FileChange:
        """Record a change that was made, and keep both texts; `form` is that of the old file."""
        update = {"unsaved": is_unsaved or None, "form": form if after is None else None}
        change = self.describe(path, before, after, diff).model_copy(update=update)
        self.put(before)
        self.put(after)
        self._remember_at(path, change)
        for on_change in self._listeners:
            on_change(path, is_unsaved)
        return change

    def put(self, text: str | None) -> str | None:
        """Make a text durable and return its hash; None means no file."""
        return None if text is None else self.blobs.put_blob(text.encode("utf-8", "surrogatepass"))

    def remember(self, change: FileChange) -> None:
        """Add a change that was read from the log; call this in the order of the log."""
        path = path_from_uri(change.uri)
        if path is not None:
            self._remember_at(real_path(path), change)

    def clear(self) -> None:
        self._changes.clear()

    def forget(self, path: Path, change: FileChange) -> None:
        """Drop a change that was made for the user, so that the agent cannot undo it."""
        if self.last(path) is change:
            self._changes[path].pop()

    def last(self, path: Path) -> FileChange | None:
        changes = self._changes.get(path)
        return changes[-1] if changes else None

    def left_unsaved(self) -> tuple[Path, ...]:
        """Return the files whose last change, as far as we know, went to the editor only."""
        return tuple(
            sorted(path for path, edits in self._changes.items() if edits and edits[-1].unsaved)
        )

    def text(self, sha256: str | None) -> str:
        """Return the text for a hash in a change; empty for None, which means no file.

        Raises `ToolError` when the stored text is damaged, since that must not reach a file, or
        cannot be read.
        """
        if sha256 is None:
            return ""
        try:
            data = self.blobs.read_blob(sha256)
        except (UserError, StorageError) as exc:
            message = f"the text that was kept for undo cannot be read: {exc.message}"
            raise ToolError(message) from exc
        if sha256_of(data) != sha256:
            raise ToolError("the text that was kept for undo is damaged; nothing was changed")
        return data.decode("utf-8", "surrogatepass")

    def recreating(self, path: Path, text: str) -> Create:
        """Return the change that restores a removed file, with old line ends and form if known."""
        last = self.last(path)
        if last is None or last.op != "delete":
            return Create(text)
        before = self.text(last.sha256_before)
        target = with_newlines(text)
        located = locate_edits(before, lambda plain: [TextEdit(0, len(plain), target)])
        return Create(located.after, last.form)

    def way_back(self, path: Path, now: str | None, target: str | None) -> Create | Rewrite:
        """Return the change from `now` to `setting`, both with LF line ends; None means no file."""
        if now is None and target is not None:
            return self.recreating(path, target)
        return Rewrite(now or "", target)

    def _remember_at(self, path: Path, change: FileChange) -> None:
        changes = self._changes.setdefault(path, [])
        if changes and _hashes(change) == tuple(reversed(_hashes(changes[-1]))):
            changes.pop()
        else:
            changes.append(change)


def _hashes(change: FileChange) -> tuple[str, str]:
    return change.sha256_before or _EMPTY, change.sha256_after or _EMPTY
