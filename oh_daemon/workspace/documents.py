"""The open workspace of one conversation: the editor's texts over the disk's, and edits of both.

`arbiter` decides which text counts and which way an edit goes; this module asks and writes.
Invariant: one writer per edit, and an open document with unsaved text is never written to disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from oh_daemon.contract.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.contract.items import FileChange
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Editor, OpenDocument, TextEdit
from oh_daemon.workspace.arbiter import (
    CONFLICT,
    REBASED,
    UNSAVED,
    Route,
    Seen,
    Truth,
    arbitrate,
    choose_route,
    fingerprint,
)
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.files import Files, FileText, sha256_of
from oh_daemon.workspace.path_locks import PathLocks
from oh_daemon.workspace.paths import Folders, real_path, shown
from oh_daemon.workspace.text_changes import (
    Change,
    Freshness,
    Restore,
    applied,
    capped,
    looks_applied,
    unified,
    with_newlines,
)

_VERIFY_TIMEOUT_S = 2.0
_MAX_DIFFERENCE_BYTES = 4096
_MOVED = (None, "stale", "missing")
"""What an editor says that did nothing because the document is another one by now."""


@dataclass(frozen=True, slots=True)
class TextView:
    """A text as the agent sees it, with the line ends it has."""

    text: str
    note: str | None


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """What an edit would do now; nothing has changed yet."""

    path: Path
    before: str
    after: str
    edits: tuple[TextEdit, ...]
    route: Route
    document: OpenDocument | None
    file: FileText | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class EditDone:
    """What an edit did."""

    change: FileChange
    route: Literal["editor", "disk"]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _State:
    path: Path
    document: OpenDocument | None
    file: FileText | None
    truth: Truth

    @property
    def text(self) -> str | None:
        if self.truth.source == "buffer" and self.document is not None:
            return self.document.text
        return self.file.text if self.file is not None else None

    @property
    def is_unsaved(self) -> bool:
        """Whether the editor holds a text that counts and that the disk does not have."""
        return self.truth.source == "buffer" and fingerprint(self.document) != fingerprint(
            self.file
        )


class Documents:
    """All paths are real ones from `Folders.resolve`. Blocks; never called on the main loop."""

    def __init__(
        self, folders: Folders, editor: Editor | None, history: EditHistory, locks: PathLocks
    ) -> None:
        self.folders = folders
        self.history = history
        self._editor = editor
        self._locks = locks
        self._files = Files(folders, history.keep)
        self._seen: dict[Path, Seen] = {}

    def read(self, path: Path) -> TextView:
        """The newest text; from now on the agent knows it. Raises `ToolError`."""
        state = self._look(path)
        if state.text is None:
            raise ToolError(f"there is no file {self._name(path)!r}")
        self._saw(state)
        return TextView(state.text, state.truth.note)

    def plan(self, path: Path, change: Change) -> PlannedEdit:
        """What `change` would do to the newest text.

        Raises `StaleDocumentError` with that text when the agent has not seen it; a change of text
        that still stands there once goes on all the same (decision 26).
        """
        state = self._look(path)
        if state.text is None:
            raise ToolError(f"there is no file {self._name(path)!r}; create it")
        moved = self._moved(state, change.freshness)
        try:
            planned = self._planned(state, change)
        except StaleDocumentError:
            raise
        except ToolError as exc:
            if moved and change.freshness == "anchored":
                raise self._stale(state, f"it changed since you read it; {exc.message}") from exc
            raise
        is_rebased = moved and change.freshness != "none"
        return replace(planned, note=REBASED) if is_rebased else planned

    def edit(self, path: Path, change: Change, *, label: str, cancel: CancelToken) -> EditDone:
        """Plan again and write, the one way that is safe now; a second time if the text moved.

        Raises `StaleDocumentError` (with the new text) and `EditRejectedError`.
        """
        with self._locks.hold(path, cancel):
            for _ in range(2):
                planned = self.plan(path, change)
                done = self._write(planned, label, cancel)
                if done is not None:
                    return done
            raise self._stale(self._look(path), "it changed while it was being edited, twice")

    def plan_create(self, path: Path) -> OpenDocument | None:
        """The empty document that the editor shows there already, if any.

        Raises `EditRejectedError` when there is more than that.
        """
        state = self._look(path)
        document = state.document
        if state.file is not None or (document is not None and document.text.strip()):
            raise EditRejectedError(
                f"{self._name(path)!r} exists already; view it and change it with replace"
            )
        return document

    def create(self, path: Path, text: str, *, label: str, cancel: CancelToken) -> EditDone:
        """A new file with the folders above it. Raises `EditRejectedError` when it exists."""
        with self._locks.hold(path, cancel):
            document = self.plan_create(path)
            if document is None:
                self._files.create(path, text.encode())
                return self._done(path, None, text, "disk")
            if self._editor is None or not self._editor.can_apply:
                raise EditRejectedError(f"{shown(path)!r} is open, and its editor takes no edits")
            route: Route = "editorAndSave" if self._editor.can_save else "editor"
            edit = TextEdit(0, len(document.text), text)
            planned = PlannedEdit(path, document.text, text, (edit,), route, document, None)
            if done := self._write(planned, label, cancel):
                return done
            raise self._stale(self._look(path), "the user is writing it")

    def plan_undo(self, path: Path) -> tuple[str, str | None]:
        """The text that is there and the one that `undo` goes back to, None being no file.

        Raises `ToolError` when there is nothing to undo or the text changed since.
        """
        last = self.history.last(path)
        if last is None:
            raise ToolError(f"no edit of {self._name(path)!r} is left to undo")
        before, after = (self.history.text(h) for h in (last.sha256_before, last.sha256_after))
        planned = self.plan(path, Restore(before, after))
        return planned.before, None if last.op == "add" else planned.after

    def undo(self, path: Path, *, label: str, cancel: CancelToken) -> EditDone:
        """Take back the last edit that this conversation made to the file; see `plan_undo`."""
        after, before = self.plan_undo(path)
        if before is not None or self._look(path).file is None:
            change = Restore(before or "", after)
            return self.edit(path, change, label=label, cancel=cancel)
        with self._locks.hold(path, cancel):
            state = self._look(path)
            if state.file is None or state.is_unsaved or state.text != after:
                raise self._stale(state, "it changed since it was created")
            self._files.delete(path, state.file.sha256)
            return self._done(path, after, None, "disk")

    def sweep(self, path: Path) -> tuple[Path, ...]:
        """Remove what an edit of `path` left beside it when its process died."""
        return self._files.sweep(path.parent)

    def unsaved_agent_edits(self) -> tuple[Path, ...]:
        """Files whose text in the editor holds an edit of ours that commands do not see."""
        return tuple(path for path in self.history.left_unsaved() if self._look(path).is_unsaved)

    def unsaved_texts(self) -> Mapping[Path, str]:
        """Texts that differ from the disk's and count more, by real path inside the folders."""
        documents = self._editor.documents() if self._editor else ()
        paths = {real_path(document.path) for document in documents}
        states = [self._look(path) for path in paths if self.folders.contains(path)]
        return {state.path: state.text or "" for state in states if state.is_unsaved}

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        """Ask the editor to save these; returns those whose text is on disk now."""
        documents = [document for path in paths if (document := self._document(path))]
        if self._editor is not None and documents:
            self._editor.save([document.path for document in documents], cancel=cancel)
        return tuple(path for path in paths if not self._look(path).is_unsaved)

    def _name(self, path: Path) -> str:
        return shown(self.folders.relative(path))

    def _moved(self, state: _State, freshness: Freshness) -> bool:
        """Whether the text is another than the agent read; raises when that is too much."""
        seen = self._seen.get(state.path)
        moved = seen is None or not seen.whole or seen.text != fingerprint(state.text)
        if freshness == "none":
            return moved
        if seen is None:
            raise self._stale(state, "you have not read it yet")
        if state.truth.note == CONFLICT:
            raise self._stale(state, CONFLICT)
        if moved and freshness == "exact":
            raise self._stale(state, "it changed since you read it")
        return moved

    def _look(self, path: Path) -> _State:
        document = self._document(path)
        file = self._file(path, document)
        truth = arbitrate(fingerprint(document), fingerprint(file), self._seen.get(path))
        return _State(path, document, file, truth)

    def _file(self, path: Path, document: OpenDocument | None) -> FileText | None:
        try:
            return self._files.read(path)
        except ToolError:
            if document is None:
                raise
            return None  # The editor could read what we cannot, so only it can write it.

    def _document(self, path: Path) -> OpenDocument | None:
        if self._editor is None:
            return None
        direct = self._editor.document(path) or self._editor.document(self.folders.as_opened(path))
        # The editor may know the file by a link to it.
        return direct or next(
            (d for d in self._editor.documents() if real_path(d.path) == path), None
        )

    def _saw(self, state: _State) -> None:
        text = fingerprint(state.text) or ""
        self._seen[state.path] = Seen(text, fingerprint(state.document), fingerprint(state.file))

    def _stale(self, state: _State, why: str) -> StaleDocumentError:
        """The error that carries the text which is there now, so that the next try can fit."""
        name = self._name(state.path)
        if state.text is None:
            return StaleDocumentError(f"{name!r} is gone")
        self._saw(state)
        note = f"\n{state.truth.note}" if state.truth.note not in (None, why) else ""
        text = capped(with_newlines(state.text), "the text")
        return StaleDocumentError(
            f"{name!r} was not edited: {why}{note}\nThis is its text now:\n{text}"
        )

    def _planned(self, state: _State, change: Change) -> PlannedEdit:
        editor, file = self._editor, state.file
        route = choose_route(
            state.truth,
            is_dirty=state.is_unsaved,
            mixed_line_ends=file is not None and file.eol == "mixed",
            can_apply=editor is not None and editor.can_apply,
            can_save=editor is not None and editor.can_save,
        )
        if route is None:
            raise self._stale(
                state, "the user has unsaved changes in an editor that takes no edits; ask to save"
            )
        before = file.text if route == "disk" and file is not None else state.text or ""
        edits = change.edits(before)
        after = applied(before, edits)
        return PlannedEdit(
            state.path, before, after, edits, route, state.document, file, state.truth.note
        )

    def _write(self, planned: PlannedEdit, label: str, cancel: CancelToken) -> EditDone | None:
        """None when the text moved under the edit and nothing was written."""
        if planned.route != "disk" or planned.file is None:
            return self._write_through_editor(planned, label, cancel)
        try:
            new = planned.file.encode(planned.after)
            self._files.replace(planned.path, new, planned.file.sha256)
        except StaleDocumentError:
            return None
        return self._done(planned.path, planned.before, planned.after, "disk", planned.note)

    def _write_through_editor(
        self, planned: PlannedEdit, label: str, cancel: CancelToken
    ) -> EditDone | None:
        if self._editor is None or planned.document is None:
            return None
        document, save = planned.document, planned.route == "editorAndSave"
        outcome = self._editor.apply_edit(
            document, planned.edits, label=label, save=save, cancel=cancel
        )
        # Neovim says `applied` for a stale edit that it skipped, so only the text itself counts.
        arrived = self._editor.wait_for_text(
            document.path,
            sha256_of(planned.after),
            timeout_s=_VERIFY_TIMEOUT_S if outcome.applied else 0,
            cancel=cancel,
        )
        if outcome.saved:
            self._await_saved_text(planned.path, document.path, cancel)
        text = self._look(planned.path).text or ""
        landed = arrived is not None or (
            outcome.applied
            and looks_applied(planned.before, planned.after, text, was_saved=outcome.saved)
        )
        if not landed and outcome.failure not in _MOVED and text == planned.before:
            raise EditRejectedError(
                f"the editor did not take the edit of {shown(planned.path)!r}: {outcome.failure}"
            )
        if not landed:
            return None
        before = planned.before if planned.file or planned.before.strip() else None
        note = "\n".join(filter(None, (planned.note, _difference(planned, text)))) or None
        return self._done(planned.path, before, text, "editor", note)

    def _await_saved_text(self, path: Path, opened_as: Path, cancel: CancelToken) -> None:
        """A formatter that runs on save reaches the disk before we hear of it."""
        file, document = self._file(path, self._document(path)), self._document(path)
        if self._editor and file and document and fingerprint(file) != fingerprint(document):
            expected = sha256_of(file.text)
            self._editor.wait_for_text(
                opened_as, expected, timeout_s=_VERIFY_TIMEOUT_S, cancel=cancel
            )

    def _done(
        self,
        path: Path,
        before: str | None,
        after: str | None,
        route: Literal["editor", "disk"],
        note: str | None = None,
    ) -> EditDone:
        # Set before anybody looks: an editor that has not reloaded yet must not count as edited.
        document = self._document(path)
        disk = after if route == "disk" else self._file(path, document)
        self._seen[path] = Seen(
            fingerprint(after) or "",
            fingerprint(document),
            fingerprint(disk),
            whole=note is None or REBASED not in note,
        )
        unsaved = route == "editor" and fingerprint(document) != fingerprint(disk)
        if unsaved:
            note = note if note and UNSAVED in note else "\n".join(filter(None, (note, UNSAVED)))
        change = self.history.record(path, before, after, unsaved=unsaved)
        return EditDone(change, route, note)


def _difference(planned: PlannedEdit, text: str) -> str | None:
    if with_newlines(text) == with_newlines(planned.after):
        return None
    patch, _, _ = unified(planned.after, text, planned.path.name)
    return "A formatter or the user changed the text after your edit:\n" + capped(
        patch, "the difference", _MAX_DIFFERENCE_BYTES
    )
