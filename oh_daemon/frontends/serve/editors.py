"""The editors of several clients as one: each call goes to the client that has the document open.

Of several that have it open, that is the one whose client acts in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.frontends.lsp.composition import Window
from oh_daemon.kernel.editor_ports import (
    ANSWER_DEADLINE_S,
    Editor,
    EditOutcome,
    LanguageServers,
    Offsets,
    OpenDocument,
    ServerReport,
    TextEdit,
)
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.daemon_messages import OpenPort
from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.files import sha256_of


class ConnectedClients(Protocol):
    """The clients that are connected now; as one, they are the `ClientConnection` of all."""

    def report_ports(self, conversation_id: str, ports: Sequence[OpenPort]) -> None: ...

    def is_watched(self, conversation_id: str) -> bool: ...

    def windows(self) -> Sequence[Window]: ...

    def listen(self, on_change: Callable[[Path], None]) -> Callable[[], None]:
        """See `Editor.listen`."""
        ...


class SharedEditor:
    """Implements `kernel.editor_ports.Editor`."""

    def __init__(self, sender: Callable[[], Window], clients: ConnectedClients) -> None:
        self._sender = sender
        self._clients = clients
        self.listen = clients.listen

    def _editors(self) -> list[Editor]:
        """Return all, that of the client that acts first."""
        first = self._sender().editor
        editors = [each.editor for each in self._clients.windows()]
        return sorted(filter(None, editors), key=lambda each: each is not first)

    def _showing(self, path: Path) -> Editor | None:
        """Return the editor that has the file open, under this name or another."""
        return next((each for each in self._editors() if each.document(path)), None)

    # A client that shows a document and cannot do it would be passed over, so all must be able to.

    @property
    def can_apply(self) -> bool:
        return all(each.can_apply for each in self._editors() if each.documents())

    @property
    def can_save(self) -> bool:
        return all(each.can_save for each in self._editors() if each.documents())

    @property
    def saves_when_asked(self) -> bool:
        return any(each.saves_when_asked for each in self._editors())

    @property
    def saves_with_edits(self) -> bool:
        return any(each.saves_with_edits for each in self._editors())

    def document(self, path: Path) -> OpenDocument | None:
        document = next(filter(None, (each.document(path) for each in self._editors())), None)
        if document is None:
            return None
        texts = (
            each.text
            for window in self._clients.windows()
            if (each := window.documents.document(path)) and window.documents.is_unsaved(path)
        )
        rivals = sorted({sha256_of(text) for text in texts if text != document.text})
        return replace(document, rival=" ".join(rivals) or None)

    def documents(self) -> tuple[OpenDocument, ...]:
        documents_by_path = {
            doc.path: doc for each in reversed(self._editors()) for doc in each.documents()
        }
        return tuple(documents_by_path.values())

    def is_unknown(self, path: Path) -> bool:
        return any(each.is_unknown(path) for each in self._editors())

    def encoding(self, path: Path) -> str | None:
        return next(filter(None, (each.encoding(path) for each in self._editors())), None)

    def apply_edit(
        self,
        document: OpenDocument,
        edits: Sequence[TextEdit],
        *,
        label: str,
        save: bool,
        cancel: CancelToken,
    ) -> EditOutcome:
        editor = self._showing(document.path)
        if editor is None:
            return EditOutcome(is_applied=False, failure="missing")
        return editor.apply_edit(document, edits, label=label, save=save, cancel=cancel)

    def create(self, path: Path, text: str, *, cancel: CancelToken) -> bool:
        return any(each.create(path, text, cancel=cancel) for each in self._editors())

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        editor = self._showing(path)
        if editor is None:
            return None
        return editor.wait_for_text(path, sha256, timeout_s=timeout_s, cancel=cancel)

    def assume_applied(self, document: OpenDocument, text: str) -> bool:
        editor = self._showing(document.path)
        shown_document = replace(document, rival=None)
        return editor is not None and editor.assume_applied(shown_document, text)

    def note_saves(self) -> Callable[[], Mapping[Path, str]]:
        ends = [each.note_saves() for each in self._editors()]
        return lambda: {path: text for end in ends for path, text in end().items()}

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        saved_paths = set[Path]()
        for editor in self._editors():
            open_paths = [
                path for path in paths if path not in saved_paths and editor.document(path)
            ]
            saved_paths |= {*editor.save(open_paths, cancel=cancel)} if open_paths else set()
        return tuple(path for path in paths if path in saved_paths)


class SharedLanguageServers:
    """Implements `kernel.editor_ports.LanguageServers`: those of the first client that has any."""

    def __init__(self, windows: Callable[[], Sequence[Window]]) -> None:
        """`windows` are the clients that take part, the one that acts first."""
        self._windows = windows

    def _servers(self) -> list[LanguageServers]:
        return [each.servers for each in self._windows() if each.servers]

    @property
    def can_report(self) -> bool:
        return any(each.can_report for each in self._servers())

    @property
    def can_look_up(self) -> bool:
        return any(each.can_look_up for each in self._servers())

    def diagnostics(
        self,
        paths: Sequence[Path] | None,
        *,
        min_severity: int,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> ServerReport:
        able = _first(each for each in self._servers() if each.can_report)
        return able.diagnostics(
            paths, min_severity=min_severity, timeout_s=timeout_s, cancel=cancel
        )

    def look_up(
        self,
        method: str,
        params: Json,
        *,
        about: Path | None = None,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> Any:
        able = self._looking_up()
        return able.look_up(method, params, about=about, timeout_s=timeout_s, cancel=cancel)

    def offsets(self, text: str) -> Offsets:
        return self._looking_up().offsets(text)

    def _looking_up(self) -> LanguageServers:
        return _first(each for each in self._servers() if each.can_look_up)


def _first(servers: Iterable[LanguageServers]) -> LanguageServers:
    able = next(iter(servers), None)
    if able is None:
        raise ToolError("no editor is there that has language servers; search with grep")
    return able
