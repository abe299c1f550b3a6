"""An editor for tests, as a port: buffers over real files, with the bad habits of real clients."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.editor_ports import EditOutcome, OpenDocument, TextEdit
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.workspace.text_changes import apply_edits


def no_op() -> None:
    """Do nothing, like a user who only watches."""


class ScriptedEditor:
    def __init__(self) -> None:
        self.can_apply = True
        self.can_save = True
        self.saves_when_asked = True
        self.saves_with_edits = False
        self.lies_when_stale = False
        self.failure: str | None = None
        self.encodings: dict[Path, str] = {}
        self.formatter: Callable[[str], str] = lambda text: text
        self.user_before_apply: Callable[[], None] = no_op
        self.user_after_apply: Callable[[], None] = no_op
        self.unknown_paths = set[Path]()
        """Files that are open with a text that it does not return."""
        self.calls: list[tuple[TextEdit, ...]] = []
        self.labels: list[str] = []
        self._condition = threading.Condition()
        self._open: dict[Path, OpenDocument] = {}

    def open(self, path: Path, text: str | None = None) -> None:
        on_disk = path.read_bytes().decode("utf-8-sig") if text is None else text
        self._set(path, on_disk)

    def type(self, path: Path, text: str) -> None:
        self._set(path, text)

    def close(self, path: Path) -> None:
        with self._condition:
            del self._open[path]

    def document(self, path: Path) -> OpenDocument | None:
        with self._condition:
            real = path.resolve()
            return next((each for each in self._open.values() if each.path.resolve() == real), None)

    def encoding(self, path: Path) -> str | None:
        return self.encodings.get(path)

    def create(self, path: Path, text: str, *, cancel: CancelToken) -> bool:  # noqa: ARG002 - as in the port.
        return False

    def is_unknown(self, path: Path) -> bool:
        return path in self.unknown_paths

    def documents(self) -> tuple[OpenDocument, ...]:
        with self._condition:
            return tuple(self._open.values())

    def apply_edit(
        self,
        document: OpenDocument,
        edits: Sequence[TextEdit],
        *,
        label: str,
        save: bool,
        cancel: CancelToken,
    ) -> EditOutcome:
        cancel.raise_if_cancelled()
        self.calls.append(tuple(edits))
        self.labels.append(label)
        self.user_before_apply()
        if self.failure is not None:
            return EditOutcome(is_applied=False, failure=self.failure)
        current = self.document(document.path)
        if current is None:
            return EditOutcome(is_applied=False, failure="missing")
        if current.version != document.version:
            failure = None if self.lies_when_stale else "stale"
            return EditOutcome(is_applied=self.lies_when_stale, failure=failure)
        self._set(document.path, apply_edits(current.text, edits))
        if save:
            self._save(document.path)
        self.user_after_apply()
        return EditOutcome(is_applied=True, is_saved=save)

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        cancel.raise_if_cancelled()

        def has_arrived() -> bool:
            document = self._open.get(path)
            return document is not None and _sha256(document.text) == sha256

        with self._condition:
            # The daemon allows two seconds. Nothing arrives late here, so tests wait far less.
            return (
                self._open[path] if self._condition.wait_for(has_arrived, timeout_s / 20) else None
            )

    def assume_applied(self, document: OpenDocument, text: str) -> bool:
        del document, text
        return False

    def note_saves(self) -> Callable[[], Mapping[Path, str]]:
        return dict

    def listen(self, on_change: Callable[[Path], None]) -> Callable[[], None]:
        del on_change
        return lambda: None

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        cancel.raise_if_cancelled()
        for path in paths:
            self._save(path)
        return tuple(paths)

    def _save(self, path: Path) -> None:
        text = self.formatter(self._open[path].text)
        if text != self._open[path].text:
            self._set(path, text)
        path.write_bytes(text.encode())

    def _set(self, path: Path, text: str) -> None:
        with self._condition:
            before = self._open.get(path)
            self._open[path] = OpenDocument(path, before.version + 1 if before else 1, text)
            self._condition.notify_all()


class MemoryBlobs(MemoryLog):
    """A log in memory whose blobs can be damaged."""

    @property
    def data(self) -> dict[str, bytes]:
        return self._blobs


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
