"""The texts of one conversation's workspace, in the editor and on disk, and the edits of both.

`arbiter` decides which text counts and where an edit is written; this module asks and writes.
Invariant: one writer per edit, and an open document with unsaved text is never written to disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.editor_ports import Editor, OpenDocument, TextEdit
from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.protocol.items import FileForm
from oh_daemon.workspace.arbiter import (
    MOVED_ON,
    REBASED,
    UNSAVED,
    UNVERIFIED,
    EditDone,
    EffectiveDocument,
    PlannedEdit,
    Route,
    Seen,
    TextWithNote,
    arbitrate,
    as_the_editor_reads,
    choose_route,
    doubt_of,
    fingerprint,
    rival_of,
)
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.encodings import encode_text
from oh_daemon.workspace.excerpts import around
from oh_daemon.workspace.files import Files, FileText, encoded_like, sha256_of
from oh_daemon.workspace.hunks import PartialChange, Rewrite, Wanted
from oh_daemon.workspace.patch import Hunks
from oh_daemon.workspace.paths import Folders, printable, quoted, real_path
from oh_daemon.workspace.swap_files import unsaved_elsewhere
from oh_daemon.workspace.text_changes import (
    Create,
    Insert,
    LocatedEdits,
    Remove,
    Replace,
    Undo,
    diff_of,
    difference,
    locate_edits,
    looks_applied,
    restoring,
    with_newlines,
)

_VERIFY_TIMEOUT_S = 2.0
_NOT_INCLUDED = "which this does not include"
_WAY_OUT = "; save or close it there first"
_MOVED = (None, "stale", "missing")
"""Failures by which an editor says that it did nothing because the document has changed."""


class Documents:
    """All paths are real paths from `Folders.resolve`. Blocks; never call it on the main loop."""

    def __init__(
        self, folders: Folders, editor: Editor | None, history: EditHistory, locks: PathLocks
    ) -> None:
        self.folders = folders
        self._name = folders.name
        self.history = history
        self._editor = editor
        self._locks = locks
        self.commands_see_buffers = False
        """Whether unsaved text counts for them, so that no edit has to be saved."""
        setting = editor.encoding if editor is not None else None
        self.files = Files(folders, history.blobs.put_blob, setting)
        self._sightings: dict[Path, Seen] = {}
        self._earlier: dict[Path, str] = {}

    def remember(self, path: Path, sha256: str) -> None:
        """Note what the agent read in an earlier run; the hash is empty if it is unknown."""
        self._earlier[real_path(path)] = sha256

    def forget(self) -> None:
        """Forget every file that the agent has seen and every edit that it could undo."""
        self._sightings.clear()
        self._earlier.clear()
        self.history.clear()

    def read(self, path: Path) -> TextWithNote:
        """Return the newest text, which then counts as read by the agent. Raises `ToolError`."""
        state = self.look(path)
        if state.text is None:
            raise ToolError(f"there is no file {quoted(self._name(path))}")
        self._saw(state)
        return TextWithNote(state.text, state.note)

    def look(self, path: Path) -> EffectiveDocument:
        """Return the newest text and where it is; it does not count as read. Raises `ToolError`."""
        document = self.document(path)
        file = self._file(path, document)
        sighting = self._sightings.get(path)
        source = arbitrate(fingerprint(document), fingerprint(file), sighting, rival_of(document))
        if document is None and self._editor is not None and self._editor.is_unknown(path):
            source = replace(source, doubt="unknownBuffer")
        source = replace(source, commands_see_buffers=self.commands_see_buffers)
        return EffectiveDocument(path, document, file, source)

    def plan(
        self, path: Path, change: Wanted, state: EffectiveDocument | None = None
    ) -> PlannedEdit:
        """Return what `change` would do to the newest text, which `look` may have returned.

        Raises `StaleDocumentError` with the text around the place when the agent may not know the
        text and does not name lines that are there just once, `EditRejectedError` when a file to be
        created exists already.
        """
        state = state or self.look(path)
        match change:
            case Create():
                return self._planned_creation(state, change)
            case Remove():
                return self._planned_removal(state, change)
            case Undo():
                return self._planned_undo(state)
            case Rewrite() | PartialChange(change=Rewrite()):
                return self._planned_rewrite(state, change)
            case Replace() | Insert() | Hunks() | PartialChange():
                return self._planned_change(state, change)

    def edit(
        self,
        path: Path,
        change: Wanted,
        *,
        label: str,
        cancel: CancelToken,
        under_unknown: bool = False,
    ) -> EditDone:
        """Plan the change anew and write it where that is safe; try again once if the text changed.

        A file that is open with an unknown text is written only if the user has allowed that:
        `under_unknown`. Raises `StaleDocumentError` (with the new text) and `EditRejectedError`.
        """
        with self._locks.hold(path, cancel):
            for _ in range(2):
                plan = self.plan(path, change)
                if not under_unknown and self.is_unknown(path):
                    raise EditRejectedError(self._unknown_reason(path) + _WAY_OUT)
                result = self._write(plan, label, cancel)
                if result is not None:
                    return result
            raise self._stale_error(self.look(path), "it changed while it was being edited, twice")

    def rewrite(
        self,
        path: Path,
        change: Wanted,
        *,
        label: str,
        cancel: CancelToken,
        under_unknown: bool = False,
    ) -> EditDone:
        """Edit without the agent being shown the change: what it has seen stays as it was."""
        sighting, under = self._sightings.get(path), under_unknown
        result = self.edit(path, change, label=label, cancel=cancel, under_unknown=under)
        new_sighting = replace(self._sightings[path], is_whole=False, read=path in self._earlier)
        self._sightings[path] = sighting or new_sighting
        return result

    def restore(self, path: Path, change: Wanted, *, label: str, cancel: CancelToken) -> None:
        """Rewrite on behalf of the user; the agent cannot undo it."""
        plan = self.plan(path, change)
        if plan.before != plan.after:
            result = self.rewrite(path, change, label=label, cancel=cancel)
            self.history.forget(path, result.change)

    def unsaved_agent_edits(self) -> tuple[Path, ...]:
        """Return files with an unsaved edit of ours in the editor, which commands do not see."""
        return tuple(path for path in self.history.left_unsaved() if self.look(path).is_unsaved)

    def unsaved_texts(self) -> Mapping[Path, str]:
        """Return the unsaved texts that count over the disk's, by real path inside the folders."""
        return {x.path: x.text or "" for x in map(self.look, self.open_texts()) if x.is_unsaved}

    def open_texts(self) -> Mapping[Path, str]:
        """Return what the editor shows of files that tools may touch, by real path."""
        documents = self._editor.documents() if self._editor else ()
        texts = {real_path(document.path): document.text for document in documents}
        return {path: text for path, text in texts.items() if not self.folders.is_closed(path)}

    def is_unknown(self, path: Path) -> bool:
        """Return whether the editor has the file open with a text that it does not return."""
        return self._editor is not None and (
            self.document(path) is None and self._editor.is_unknown(path)
        )

    def unseen_texts(self, paths: Collection[Path]) -> dict[Path, str]:
        """Return, for the files that may have unsaved text unknown here, a sentence that says so.

        `{Path("/shop/a.py"): "nvim (process 4711) holds unsaved text of 'a.py', which this does not
        include"}`. Files whose edits stay unsaved in an editor are left out: nothing is lost there.
        """
        by_path = {path: self._unknown_reason(path) for path in paths if self.is_unknown(path)}
        for path, swap in unsaved_elsewhere(paths).items():
            if self.document(path) is None or not self.look(path).is_unsaved:
                holder = f"{printable(swap.program)} (process {swap.pid}) holds"
                by_path[path] = (
                    f"{holder} unsaved text of {quoted(self._name(path))}, {_NOT_INCLUDED}"
                )
        return by_path

    def require_seen(self, paths: Collection[Path]) -> None:
        """Raise `EditRejectedError` if one of the files may have unsaved text unknown here."""
        for reason in self.unseen_texts(paths).values():
            raise EditRejectedError(reason + _WAY_OUT)

    def _unknown_reason(self, path: Path) -> str:
        return f"your editor may hold unsaved text of {quoted(self._name(path))}, {_NOT_INCLUDED}"

    def encode(self, path: Path, text: str) -> bytes:
        """Return the bytes of a text in the form of the file, if there is one."""
        return encoded_like(text, self.look(path).file)

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        """Ask the editor to save these files; returns those whose text is on disk now."""
        documents = [document for path in paths if (document := self.document(path))]
        if self._editor is not None and documents:
            self._editor.save([document.path for document in documents], cancel=cancel)
        return tuple(path for path in paths if not self.look(path).is_unsaved)

    def _doubt(self, state: EffectiveDocument) -> str | None:
        """Return why the agent may not know the text as it is. Raises `ToolError` without one."""
        if state.text is None:
            raise ToolError(
                f"there is no {quoted(self._name(state.path))}; glob finds files by name"
            )
        if state.source.doubt in {"conflict", "rivals"}:
            raise self._stale_error(state, str(state.source.note))
        return doubt_of(state.text, self._sightings.get(state.path), self._earlier.get(state.path))

    def _planned_change(
        self, state: EffectiveDocument, change: Replace | Insert | Hunks | PartialChange
    ) -> PlannedEdit:
        doubt, plain = self._doubt(state), with_newlines(state.text or "")
        try:
            edit_plan = self._plan_edit(state, partial(locate_edits, find=change.edits))
        except StaleDocumentError:
            raise
        except ToolError as exc:
            if doubt is None:
                raise
            raise self._stale_error(state, f"{doubt}; {exc.message}", change.place(plain)) from exc
        if doubt is None:
            return edit_plan
        if not (change.is_anchored if doubt == MOVED_ON else change.names_lines(plain)):
            raise self._stale_error(state, doubt, change.place(plain))
        if doubt != MOVED_ON:
            return edit_plan
        return replace(edit_plan, note="\n".join(filter(None, (REBASED, edit_plan.note))))

    def _file(self, path: Path, document: OpenDocument | None) -> FileText | None:
        try:
            return as_the_editor_reads(self.files.read(path), document)
        except ToolError:
            if document is None:
                raise
            return None  # The editor could read a file that we cannot, so only it can write it.

    def document(self, path: Path) -> OpenDocument | None:
        """Return the open document of a file, if the editor has one."""
        if self._editor is None:
            return None
        opened_path = self.folders.as_opened(path)
        document = self._editor.document(path)
        if document is None and opened_path != path:
            document = self._editor.document(opened_path)
        return document

    def _saw(self, state: EffectiveDocument) -> None:
        texts = fingerprint(state.document), fingerprint(state.file)
        own, rival = fingerprint(state.text) or "", rival_of(state.document)
        self._sightings[state.path] = Seen(own, *texts, rival=rival)

    def _stale_error(
        self, state: EffectiveDocument, why: str, place: int = 1
    ) -> StaleDocumentError:
        """Return an error that shows the text around a line, so that the next attempt can fit."""
        name = quoted(self._name(state.path))
        if state.text is None:
            return StaleDocumentError(f"{name} is gone")
        note = f"\n{state.note}" if state.note not in (None, why) else ""
        lines = around(with_newlines(state.text), place)
        error = StaleDocumentError(f"{name} was not edited: {why}{note}\n{lines}")
        error.on_shown = partial(self._saw, state)
        return error

    def _plan_edit(
        self, state: EffectiveDocument, find: Callable[[str], LocatedEdits]
    ) -> PlannedEdit:
        editor, file = self._editor, state.file
        route = choose_route(
            state.source,
            is_dirty=state.is_unsaved,
            mixed_line_ends=file is not None and file.has_mixed_line_ends,
            can_apply=editor is not None and editor.can_apply,
            can_save=editor is not None and editor.can_save,
            may_stay_unsaved=self.commands_see_buffers,
        )
        if route is None:
            why = "the user has unsaved changes in an editor that takes no edits; ask to save"
            raise self._stale_error(state, why)
        before = file.text if route == "disk" and file is not None else state.text or ""
        located = find(before)
        if file is not None and file.encoding != "utf-8":
            # An editor would save "?" for what the encoding lacks.
            file.encode(located.after) if route == "disk" else encode_text(located.after, file.form)
        saves = route == "editor" and editor is not None and editor.saves_with_edits
        return PlannedEdit(
            state,
            before,
            located.after,
            located.edits,
            located.diff,
            route,
            state.note,
            saves_unsaved_text=saves,
        )

    def _planned_removal(self, state: EffectiveDocument, change: Remove) -> PlannedEdit:
        name = quoted(self._name(state.path))
        doubt = self._doubt(state)
        if state.file is None or state.is_unsaved:
            raise EditRejectedError(f"{name} has unsaved changes of the user; ask to save it")
        if doubt is not None or fingerprint(state.text) != fingerprint(change.text):
            raise self._stale_error(state, doubt or MOVED_ON)
        if not (state.file.mode or 0) & 0o222:
            raise EditRejectedError(f"{name} is read-only; only the user can unlock it")
        text = state.file.text
        return PlannedEdit(state, text, None, (), diff_of(text, None), "disk", state.note)

    def _planned_creation(self, state: EffectiveDocument, change: Create) -> PlannedEdit:
        name, document, editor = quoted(self._name(state.path)), state.document, self._editor
        # A file removed from disk while the editor still shows it is created on disk again.
        is_shown = fingerprint(document) == fingerprint(change.text)
        is_there = document is not None and document.text.strip() and not is_shown
        if state.file is not None or is_there:
            raise EditRejectedError(f"{name} exists already; view it and change it with replace")
        text, diff = change.text, diff_of(None, change.text)
        if document is None or editor is None or is_shown:
            encoding = self.files.encodings.get(state.path)
            form = change.form or (FileForm(encoding=encoding) if encoding else None)
            return PlannedEdit(state, None, text, (), diff, "disk", form=form)
        if not editor.can_apply:
            raise EditRejectedError(f"{name} is open, and its editor takes no edits")
        route: Route = "editorAndSave" if editor.can_save else "editor"
        edit = TextEdit(0, len(document.text), text)
        return PlannedEdit(state, None, text, (edit,), diff, route)

    def _planned_undo(self, state: EffectiveDocument) -> PlannedEdit:
        last = self.history.last(state.path)
        if last is not None and last.op == "delete" and state.file is None:
            before = with_newlines(self.history.text(last.sha256_before))
            return self._planned_creation(state, self.history.recreating(state.path, before))
        if last is None or state.text is None:
            raise ToolError(f"no edit of {quoted(self._name(state.path))} is left to undo")
        before, after = (self.history.text(h) for h in (last.sha256_before, last.sha256_after))
        edit_plan = self._plan_edit(state, partial(restoring, before=before, after=after))
        return self._removing(edit_plan) if last.op == "add" else edit_plan

    def _planned_rewrite(
        self, state: EffectiveDocument, change: Rewrite | PartialChange
    ) -> PlannedEdit:
        if state.text is None:
            raise ToolError(f"{quoted(self._name(state.path))} is gone")
        edit_plan = self._plan_edit(state, partial(locate_edits, find=change.edits))
        is_removal = isinstance(change, Rewrite) and change.after is None
        return self._removing(edit_plan) if is_removal else edit_plan

    def _removing(self, plan: PlannedEdit) -> PlannedEdit:
        """Turn a plan into the removal of a file that the agent created."""
        if plan.state.file is None:
            return plan
        if plan.state.is_unsaved:
            raise self._stale_error(plan.state, "it changed since it was created")
        return replace(plan, after=None, diff=diff_of(plan.before, None), route="disk")

    def _write(self, plan: PlannedEdit, label: str, cancel: CancelToken) -> EditDone | None:
        """Write the edit; returns None, with nothing written, when the text changed meanwhile."""
        path, file, after = plan.state.path, plan.state.file, plan.after
        if plan.route != "disk":
            return self._write_through_editor(plan, label, cancel)
        is_plain = file is None and plan.form is None
        if is_plain and self.files.is_created_by(self._editor, path, after or "", cancel):
            return self._edit_result(plan, after, "editor")
        try:
            if file is None:
                form = plan.form or FileForm()
                self.files.create(path, encode_text(after or "", form), form.mode)
            elif after is None:
                self.history.put(plan.before)
                self.files.delete(path, file.sha256)
            else:
                self.files.replace(path, file.encode(after), file.sha256)
        except StaleDocumentError:
            return None
        return self._edit_result(plan, after, "disk", plan.note)

    def _write_through_editor(
        self, plan: PlannedEdit, label: str, cancel: CancelToken
    ) -> EditDone | None:
        path, document, after = plan.state.path, plan.state.document, plan.after or ""
        if self._editor is None or document is None:
            return None
        outcome = self._editor.apply_edit(
            document,
            plan.edits,
            label=label,
            save=plan.route == "editorAndSave",
            cancel=cancel,
        )
        # Neovim reports `applied` even for a stale edit that it skipped: only the text counts.
        editor_text = self._editor.wait_for_text(
            document.path,
            sha256_of(after),
            timeout_s=_VERIFY_TIMEOUT_S if outcome.is_applied else 0,
            cancel=cancel,
        )
        if outcome.is_saved:
            self._await_saved_text(path, document.path, cancel)
        # eglot answers at once and sends the text when its user is idle; to send the edit again
        # would only be refused, since its version is old by then.
        is_unverified = (
            outcome.is_applied
            and editor_text is None
            and self._editor.assume_applied(document, after)
        )
        text = self.look(path).text or ""
        is_applied = editor_text is not None or (
            outcome.is_applied
            and looks_applied(document.text, after, text, was_saved=outcome.is_saved)
        )
        if not is_applied and outcome.failure not in _MOVED and text == document.text:
            raise EditRejectedError(
                f"the editor did not take the edit of {quoted(path)}: {outcome.failure}"
            )
        if not is_applied:
            return None
        unverified = UNVERIFIED if is_unverified else None
        note = "\n".join(filter(None, (plan.note, unverified, difference(after, text, path.name))))
        return self._edit_result(plan, text, "editor", note or None)

    def _await_saved_text(self, path: Path, opened_as: Path, cancel: CancelToken) -> None:
        """Wait until we hear of what a formatter did on save, which is on disk before that."""
        file, document = self._file(path, self.document(path)), self.document(path)
        if self._editor and file and document and fingerprint(file) != fingerprint(document):
            self._editor.wait_for_text(
                opened_as, sha256_of(file.text), timeout_s=_VERIFY_TIMEOUT_S, cancel=cancel
            )

    def _edit_result(
        self,
        plan: PlannedEdit,
        after: str | None,
        route: Literal["editor", "disk"],
        note: str | None = None,
    ) -> EditDone:
        path, before = plan.state.path, plan.before
        # Set before the next look, or an editor that has not reloaded yet would count as edited.
        document, sighting = self.document(path), self._sightings.get(path)
        disk = after if route == "disk" else self._file(path, document)
        self._sightings[path] = Seen(
            fingerprint(after) or "",
            fingerprint(document),
            fingerprint(disk),
            is_whole=note is None or REBASED not in note,
            read=before is None
            or path in self._earlier
            or (sighting is not None and sighting.read),
            rival=rival_of(document),
        )
        is_unsaved = route == "editor" and fingerprint(document) != fingerprint(disk)
        if is_unsaved and not self.commands_see_buffers:
            note = note if note and UNSAVED in note else "\n".join(filter(None, (note, UNSAVED)))
        form = plan.state.file.form if plan.state.file and route == "disk" else None
        diff = plan.diff if after == plan.after else None
        change = self.history.record(
            path, before, after, is_unsaved=is_unsaved, form=form, diff=diff
        )
        return EditDone(change, route, note)
