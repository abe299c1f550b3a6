"""Writes into one chat file: through the editor while it is open there, else on the disk.

Each edit only puts text in, at most one a second, for exactly the text that it was planned for. One
that is refused is planned anew for the text that is there then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.frontends.lsp.plain.chat_files import ChatFiles
from oh_daemon.frontends.lsp.plain.chat_text import Plan, compose
from oh_daemon.kernel.editor_ports import Editor, OpenDocument, TextEdit
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.workspace.text_changes import apply_edits

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_MAX_WAIT_S = 60.0
_ARRIVES_WITHIN_S = 2.0
_MAX_REMEMBERED = 8
_LABEL = "Answer of the agent"


class ChatWriter:
    """Any thread may `put`; a thread of its own writes."""

    def __init__(self, path: Path, files: ChatFiles, editor: Editor | None) -> None:
        self.path = path
        self._files = files
        self._editor = editor
        self._condition = threading.Condition()
        self._plans: list[Plan] = []
        self._n_changes = 0
        """How often the text in the editor was another."""
        self._n_looked_at = 0
        self._on_disk = deque[tuple[str, Sequence[Plan]]](maxlen=_MAX_REMEMBERED)
        """What was lately put on the disk, and into which text. An editor that reads the file to
        open it may say so only after it was written again."""
        self._cancel = CancelToken()
        self._stop_listening = editor.listen(self._on_change) if editor else lambda: None
        thread = threading.Thread(target=self._run, name=f"chat-{path.stem[:8]}", daemon=True)
        thread.start()

    def put(self, plan: Plan) -> None:
        with self._condition:
            self._plans.append(plan)
            self._condition.notify_all()

    def text(self) -> str:
        """Return what the editor shows, else what the disk has. Raises `ToolError`."""
        document = self._document()
        return document.text if document else self._files.read(self.path)

    def close(self) -> None:
        self._stop_listening()
        self._cancel.cancel()

    def _on_change(self, path: Path) -> None:
        if path == self.path:
            with self._condition:
                self._n_changes += 1
                self._condition.notify_all()

    def _document(self) -> OpenDocument | None:
        return self._editor.document(self.path) if self._editor else None

    def _run(self) -> None:
        with self._cancel.notifying(self._condition):
            while not self._cancel.is_cancelled:
                with self._condition:
                    self._condition.wait_for(self._has_work)
                    plans, self._plans = self._plans, []
                    self._n_looked_at = self._n_changes
                try:
                    if plans or self._missed_in(self._document()):
                        self._write(plans)
                except Cancelled:
                    return

    def _has_work(self) -> bool:
        may_have_opened = bool(self._on_disk) and self._n_changes != self._n_looked_at
        return bool(self._plans) or may_have_opened or self._cancel.is_cancelled

    def _missed_in(self, document: OpenDocument | None) -> Sequence[Plan]:
        """Return what the editor does not know of, since it had read the file before."""
        if document is None:
            return ()
        befores = [before for before, _ in self._on_disk]
        if document.text in befores:
            later = list(self._on_disk)[befores.index(document.text) :]
            return [plan for _, plans in later for plan in plans]
        self._on_disk.clear()
        return ()

    def _write(self, plans: list[Plan]) -> None:
        """Try until the plans are carried out; a text that is as it was is tried ever later."""
        wait_s = _EVERY_S
        while not self._cancel.is_cancelled:
            begun_at, n_changes = time.monotonic(), self._n_changes
            try:
                is_written = self._try(plans)
            except (DaemonError, OSError) as exc:
                # What is in the way may pass, as a full disk does; the log has everything anyway.
                log.warning("%s is not written: %s", self.path, exc)
                is_written = False
            self._wait_until(begun_at + _EVERY_S)
            if is_written:
                return
            is_another = self._wait_for_change(n_changes, wait_s)
            wait_s = _EVERY_S if is_another else min(wait_s * 2, _MAX_WAIT_S)

    def _is_another(self, n_changes: int) -> bool:
        return self._n_changes != n_changes or self._cancel.is_cancelled

    def _try(self, plans: Sequence[Plan]) -> bool:
        """Make the edits of all plans as one; return whether they are in the text now."""
        document = self._document()
        can_apply = self._editor is not None and self._editor.can_apply
        if document is not None and can_apply:
            plans = [*self._missed_in(document), *plans]
            return self._through_editor(document, compose(document.text, plans))
        before = self._files.read(self.path)
        if document is not None and document.text != before:
            return False  # What the user has not saved would be lost when the editor reloads.
        after = apply_edits(before, compose(before, plans))
        if not self._files.write(self.path, before, after):
            return False
        if not can_apply:
            return True
        self._on_disk.append((before, plans))
        return True

    def _through_editor(self, document: OpenDocument, edits: Sequence[TextEdit]) -> bool:
        editor = self._editor
        if editor is None:
            return False
        n_changes = self._n_changes
        outcome = editor.apply_edit(document, edits, label=_LABEL, save=False, cancel=self._cancel)
        if not outcome.is_applied and outcome.failure != "timeout":
            return False
        # eglot says yes at once, and tells the text when its user has stopped typing; an editor
        # that asks its user says nothing for long. To ask again would put everything in twice.
        wait_s = _MAX_WAIT_S
        while self._wait_for_change(n_changes, wait_s):
            self._cancel.raise_if_cancelled()
            n_changes, wait_s = self._n_changes, _ARRIVES_WITHIN_S
            text = self.text()
            # The user may have typed more by now, and an editor may say yes and have done nothing.
            if all(text.count(edit.text) > document.text.count(edit.text) for edit in edits):
                return True
        return False

    def _wait_for_change(self, n_changes: int, wait_s: float) -> bool:
        """Return whether the editor told another text before the time was over."""
        with self._condition:
            return self._condition.wait_for(partial(self._is_another, n_changes), wait_s)

    def _wait_until(self, end: float) -> None:
        with self._condition:
            while not self._cancel.is_cancelled and (left_s := end - time.monotonic()) > 0:
                self._condition.wait(left_s)
