"""The open editor as the core sees it: edits, saves, language servers, what the user looks at.

Edits are sent as one undo step, with the document version they were made for. The client's word on
an edit is only passed on; the caller checks by hash whether the text came out right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.common.plain_text import clip_line, display_escaped, first_line
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.frontends.lsp.sync import OpenDocuments
from oh_daemon.jsonrpc.client import Client, ClientAnswer
from oh_daemon.jsonrpc.reading import field_in, object_in
from oh_daemon.kernel.context import NOTHING
from oh_daemon.kernel.editor_ports import (
    ANSWER_DEADLINE_S,
    MAX_LABEL_CHARS,
    EditOutcome,
    Offsets,
    OpenDocument,
    ServerReport,
    TextEdit,
)
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.base import Contract, Range, parse_strictly
from oh_daemon.protocol.daemon_messages import ContextChangedParams, ShownSelection
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.language_servers import parse_answer
from oh_daemon.protocol.to_client import (
    DiagnosticsResult,
    LanguageRequestResult,
    ReadDocumentResult,
)
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.paths import Folders, path_from_uri, uri_from_path

EDIT_DEADLINE_S = 10.0
READ_DEADLINE_S = 5.0
_MAX_REASON_CHARS = 200
_FAILURES = {"deadline": "timeout", "gone": "gone", "refused": "rejected"}


T = TypeVar("T", bound=Contract)


_MAX_OPEN = 20
_MAX_SELECTED_CHARS = 4000


class ClientEditor:
    """Implements `kernel.editor_ports.Editor`; the calls that ask the client block."""

    def __init__(self, documents: OpenDocuments, client: Client, facts: ClientFacts) -> None:
        self._client = client
        self._synced_documents = documents
        self._has_own_edit = "applyEdit2" in facts.features
        self.saves_when_asked = "saveDocument" in facts.features
        self.saves_with_edits = False
        self._has_read = "readDocument" in facts.features
        self._has_settings = facts.offers("workspace", "configuration")
        self._takes_versions = facts.offers("workspace", "workspaceEdit", "documentChanges")
        self.can_apply = self._has_own_edit or facts.offers("workspace", "applyEdit")
        self.can_save = self._has_own_edit or self.saves_when_asked
        self.documents = documents.documents
        self.note_saves = documents.note_saves
        self.listen = documents.listen

    def document(self, path: Path) -> OpenDocument | None:
        """Return the synced document; read it from the client if its text is unknown.

        Otherwise an agent would take the file on disk for what the user sees.
        """
        documents = self._synced_documents
        uri = documents.unknown_uri(path)
        if uri is not None and self._has_read and documents.is_readable(uri):
            self._read(uri, CancelToken())
            if documents.unknown_uri(path) == uri:
                documents.note_unreadable(uri)
        return documents.document(path)

    def is_unknown(self, path: Path) -> bool:
        return self._synced_documents.unknown_uri(path) is not None

    def _read(self, uri: str, cancel: CancelToken) -> None:
        """Adopt the text that the client shows, if it returns one.

        That happens on the main loop, so that the changes that follow apply to exactly this text.
        """
        is_over = threading.Event()

        def on_answer(answer: ClientAnswer) -> None:
            with suppress(ValueError):
                read = parse_strictly(ReadDocumentResult, answer.result)
                self._synced_documents.adopt(uri, read.text, read.version)
            is_over.set()

        withdraw = self._client.request_async("editor/readDocument", {"uri": uri}, on_answer)
        forget = cancel.on_cancel(is_over.set)
        is_over.wait(READ_DEADLINE_S)
        forget()
        withdraw()

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        """Wait until the text has this hash; if no change brings it in time, ask the client."""
        text = self._synced_documents.wait_for_text(
            path, sha256, timeout_s=timeout_s, cancel=cancel
        )
        if text is not None or not self._has_read or not timeout_s:
            return text
        if self.is_unknown(path):
            document = self.document(path)
            return document if document and sha256_of(document.text) == sha256 else None
        self._read(self._synced_documents.uri_of(path), cancel)
        return self._synced_documents.wait_for_text(path, sha256, timeout_s=0, cancel=cancel)

    def assume_applied(self, document: OpenDocument, text: str) -> bool:
        return not self._has_read and self._synced_documents.assume(document, text)

    def apply_edit(
        self,
        document: OpenDocument,
        edits: Sequence[TextEdit],
        *,
        label: str,
        save: bool,
        cancel: CancelToken,
    ) -> EditOutcome:
        """Ask once. `failure` is stale, readonly, rejected, missing, timeout, gone or unsupported.

        `save` saves a document that was clean before; the user's unsaved text is never saved.
        """
        if not self.can_apply:
            return EditOutcome(is_applied=False, failure="unsupported")
        current = self.document(document.path)
        if current is None or current.text != document.text:
            # A client without versioned edits would apply them to whatever is there now.
            return EditOutcome(is_applied=False, failure="missing" if current is None else "stale")
        params: Json = {
            "label": label[:MAX_LABEL_CHARS],
            "edit": self._workspace_edit(document, edits),
        }
        if self._has_own_edit:
            params["save"] = "ifWasClean" if save else "never"
            return _outcome(self._ask("editor/applyEdit", params, cancel))
        outcome = _outcome(self._ask("workspace/applyEdit", params, cancel))
        if outcome.is_applied and save:
            is_saved = bool(self.save([document.path], cancel=cancel))
            return EditOutcome(is_applied=True, is_saved=is_saved)
        return outcome

    def encoding(self, path: Path) -> str | None:
        """Ask for the setting that VS Code has for the resource; other clients know none."""
        if not self._has_settings:
            return None
        item = {"scopeUri": uri_from_path(path), "section": "files.encoding"}
        answer = self._client.request(
            "workspace/configuration",
            {"items": [item]},
            deadline_s=READ_DEADLINE_S,
            cancel=CancelToken(),
        )
        match answer.result:
            case [str(name)]:
                return name
            case _:
                return None

    def create(self, path: Path, text: str, *, cancel: CancelToken) -> bool:  # noqa: ARG002 - as in the port.
        return False

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        """Ask the client to save; return the paths that it says it saved."""
        if not self.saves_when_asked:
            return ()
        uris = {self._synced_documents.uri_of(path): path for path in paths}
        answer = self._ask("editor/saveDocument", {"uris": list(uris)}, cancel)
        saved_uris = field_in(answer.result, "saved")
        return tuple(
            path for uri, path in uris.items() if isinstance(saved_uris, list) and uri in saved_uris
        )

    def _ask(self, method: str, params: Json, cancel: CancelToken) -> ClientAnswer:
        return self._client.request(method, params, deadline_s=EDIT_DEADLINE_S, cancel=cancel)

    def _workspace_edit(self, document: OpenDocument, edits: Sequence[TextEdit]) -> Json:
        uri = self._synced_documents.uri_of(document.path)
        changes = lsp_edits(document.text, edits, self._synced_documents.encoding)
        if self._takes_versions or self._has_own_edit:
            identifier = {"uri": uri, "version": document.version}
            return {"documentChanges": [{"textDocument": identifier, "edits": changes}]}
        return {"changes": {uri: changes}}


def lsp_edits(text: str, edits: Sequence[TextEdit], encoding: str) -> list[Json]:
    """Convert edits to LSP's form. One that begins or ends inside CR LF is widened to all of it."""
    # pygls takes 0.3 s to import; by the time of an edit it is loaded already.
    from oh_daemon.frontends.lsp.positions import ClientOffsets  # noqa: PLC0415

    offsets = ClientOffsets(text, encoding)

    def lsp_edit(edit: TextEdit) -> Json:
        start, end, new_text = edit.start, edit.end, edit.text
        if offsets.is_inside_line_end(start):
            start, new_text = start - 1, "\r" + new_text
        if offsets.is_inside_line_end(end):
            end, new_text = end + 1, new_text + "\n"
        span = {"start": offsets.position(start), "end": offsets.position(end)}
        return {"range": span, "newText": new_text}

    return [lsp_edit(edit) for edit in edits]


def _outcome(answer: ClientAnswer) -> EditOutcome:
    """Read the client's answer: anything but a clear yes is a no."""
    if answer.outcome != "answered":
        return EditOutcome(is_applied=False, failure=_FAILURES[answer.outcome])
    result = object_in(answer.result)
    if result.get("applied") is True:
        return EditOutcome(is_applied=True, is_saved=result.get("saved") is True)
    # The reason may be any text, as in LSP's `workspace/applyEdit`.
    reason = result.get("failureReason")
    reason_line = display_escaped(first_line(reason)) if isinstance(reason, str) else ""
    return EditOutcome(
        is_applied=False, failure=clip_line(reason_line, _MAX_REASON_CHARS) or "rejected"
    )


class ClientServers:
    """Implements `kernel.editor_ports.LanguageServers`; the calls that ask the client block."""

    def __init__(self, documents: OpenDocuments, client: Client, facts: ClientFacts) -> None:
        self._client = client
        self._synced_documents = documents
        self.can_report = "diagnostics" in facts.features
        self.can_look_up = "languageRequests" in facts.features

    def diagnostics(
        self,
        paths: Sequence[Path] | None,
        *,
        min_severity: int,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> ServerReport:
        """Ask for diagnostics; drop what the client sends beyond what was asked for."""
        params: Json = {"minSeverity": min_severity}
        if paths is not None:
            params["uris"] = [self._synced_documents.uri_of(path) for path in paths]
        answer = self._ask("editor/diagnostics", params, DiagnosticsResult, timeout_s, cancel)
        items = [
            (item.uri, tuple(d for d in item.diagnostics if (d.severity or 1) <= min_severity))
            for item in answer.items
            if paths is None or item.uri in params["uris"]
        ]
        return ServerReport(items, answer.loading or ())

    def look_up(
        self,
        method: str,
        params: Json,
        *,
        about: Path | None = None,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> Any:
        document = {"textDocument": {"uri": self._synced_documents.uri_of(about)}} if about else {}
        request = {"method": method, "params": {**document, **params}}
        result_type = LanguageRequestResult
        return self._ask("editor/languageRequest", request, result_type, timeout_s, cancel).result

    def offsets(self, text: str) -> Offsets:
        # pygls takes 0.3 s to import, so it is loaded only when needed.
        from oh_daemon.frontends.lsp.positions import ClientOffsets as Counted  # noqa: PLC0415

        return Counted(text, self._synced_documents.encoding)

    def _ask(
        self, method: str, params: Json, result: type[T], timeout_s: float, cancel: CancelToken
    ) -> T:
        answer = self._client.request(method, params, deadline_s=timeout_s, cancel=cancel)
        if answer.outcome != "answered":
            raise ToolError(
                f"the editor did not say: {answer.message}. Its language servers may be busy or"
                " missing; search with grep, or try again later"
            )
        return parse_answer(result, answer.result)


class EditorContext:
    """Set on the main loop, read by any thread: the value is replaced as a whole."""

    def __init__(self, masker: Masker, documents: OpenDocuments) -> None:
        self._masker = masker
        self._documents = documents
        self._context: ContextChangedParams | None = None

    def on_changed(self, params: Json) -> None:
        """Handle the notification. Raises `ValidationError`; then the previous context stays."""
        self._context = parse_strictly(ContextChangedParams, params)

    def seen_in(self, folders: Folders) -> dict[str, str]:
        """Return what a conversation in these folders may know, by kind.

        Until the client has sent the notification, that is what its documents say.
        """
        context = self._context
        uris = (context and context.open_uris) or self._documents.uris()
        lists = {
            "open": _open_names(folders, uris),
            "unsaved": _open_names(folders, self._documents.unsaved_uris()),
        }
        if context is None:
            return lists
        selection, counts = context.selection, context.diagnostics_summary
        problems = f"errors {counts.errors}, warnings {counts.warnings}" if counts else NOTHING
        return {
            "active": _active(folders, context),
            "selection": _selection(folders, selection, self._masker) if selection else NOTHING,
            "open": lists["open"],
            "problems": problems,
            "unsaved": lists["unsaved"],
        }


def _active(folders: Folders, context: ContextChangedParams) -> str:
    name = _name(folders, context.active_uri)
    if name is None:
        return NOTHING
    selection = context.selection
    if selection and selection.uri == context.active_uri and _is_empty(selection.range):
        name += f", cursor in line {selection.range.start.line + 1}"
    if context.visible_ranges:
        first, last = context.visible_ranges[0].start.line, context.visible_ranges[-1].end.line
        name += f", lines {first + 1}-{last + 1} on screen"
    return name


def _selection(folders: Folders, selection: ShownSelection, masker: Masker) -> str:
    name, span = _name(folders, selection.uri), selection.range
    if name is None or _is_empty(span):
        return NOTHING
    text = selection.text or ""
    n_cut = len(text) - _MAX_SELECTED_CHARS
    if n_cut > 0:
        start = masker.mask_start(text[:_MAX_SELECTED_CHARS])
        text = f"{start}\n[cut, {n_cut:,} characters more]"
    return f"{name} lines {span.start.line + 1}-{span.end.line + 1}\n{text}"


def _open_names(folders: Folders, uris: tuple[str, ...]) -> str:
    names = [name for uri in uris if (name := _name(folders, uri))]
    more = [f"{len(names) - _MAX_OPEN} more"] if len(names) > _MAX_OPEN else []
    return ", ".join([*names[:_MAX_OPEN], *more]) or NOTHING


def _is_empty(span: Range) -> bool:
    return span.start == span.end


def _name(folders: Folders, uri: str | None) -> str | None:
    """Name a file by its path's text alone: the caller holds a lock, so the disk is not read."""
    path = path_from_uri(uri or "")
    if path is None:
        return None
    path = Path(os.path.normpath(path))
    for folder, root in zip(folders.folders, folders.roots, strict=True):
        if path.is_relative_to(folder):
            path = root / path.relative_to(folder)
    return folders.name(path) if folders.contains(path) and not folders.is_left_out(path) else None
