"""The open editor as the core sees it: edits, saves and snapshots through the client.

Edits go as one undo step with the version they were made for. What the client says about an edit is
only passed on; whether the text came out right is checked by the caller, by its hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import EditOutcome, OpenDocument, TextEdit
from oh_daemon.fronts.lsp.client import Client, ClientAnswer
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.sync import Documents, text_sha256
from oh_daemon.workspace.paths import uri_from_path

EDIT_DEADLINE_S = 10.0
_MAX_LABEL_CHARS = 40
_FAILURES = {"deadline": "timeout", "gone": "gone", "refused": "rejected"}
_REASONS = frozenset({"stale", "readonly", "rejected", "missing"})

Json = dict[str, Any]


class ClientEditor:
    """Implements `core.ports.Editor`; the calls that ask the client block."""

    def __init__(self, documents: Documents, client: Client, facts: ClientFacts) -> None:
        self._documents = documents
        self._client = client
        self._facts = facts
        self._group_ids = count(1)

    @property
    def can_apply(self) -> bool:
        return "applyEdit2" in self._facts.features or self._facts.applies_edits

    @property
    def can_save(self) -> bool:
        return bool(self._facts.features & {"applyEdit2", "saveDocument"})

    def document(self, path: Path) -> OpenDocument | None:
        return self._documents.document(path)

    def documents(self) -> tuple[OpenDocument, ...]:
        return self._documents.documents()

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        return self._documents.wait_for_text(path, sha256, timeout_s=timeout_s, cancel=cancel)

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

        With `save` a clean document is saved with the edit; text of the user is never saved.
        """
        if not self.can_apply:
            return EditOutcome(applied=False, failure="unsupported")
        current = self._documents.document(document.path)
        if current is None or current.text != document.text:
            # A client without versioned edits would apply them to whatever is there now.
            return EditOutcome(applied=False, failure="missing" if current is None else "stale")
        edit = self._workspace_edit(document, edits)
        if "applyEdit2" in self._facts.features:
            return self._apply_ours(document, edit, label, save=save, cancel=cancel)
        params = {"label": label[:_MAX_LABEL_CHARS], "edit": edit}
        answer = self._ask("workspace/applyEdit", params, cancel)
        outcome = _outcome(answer)
        if outcome.applied and save and self.can_save:
            is_saved = bool(self.save([document.path], cancel=cancel))
            return EditOutcome(applied=True, saved=is_saved)
        return outcome

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        """Ask the client to save; returns those it says it saved."""
        if "saveDocument" in self._facts.features:
            uris = {self._uri(path): path for path in paths}
            answer = self._ask("editor/saveDocument", {"uris": list(uris)}, cancel)
            saved = cast("Json", answer.result).get("saved", ()) if _is_object(answer) else ()
            return tuple(uris[uri] for uri in saved if uri in uris)
        documents = [found for path in paths if (found := self._documents.document(path))]
        return tuple(
            document.path
            for document in documents
            if self.can_save and self._save_by_edit(document, cancel)
        )

    def _save_by_edit(self, document: OpenDocument, cancel: CancelToken) -> bool:
        params = self._edit_params(document, self._workspace_edit(document, ()), "Save")
        return _outcome(self._ask("editor/applyEdit", {**params, "save": "always"}, cancel)).saved

    def _apply_ours(
        self, document: OpenDocument, edit: Json, label: str, *, save: bool, cancel: CancelToken
    ) -> EditOutcome:
        params = self._edit_params(document, edit, label)
        params["save"] = "ifWasClean" if save else "never"
        return _outcome(self._ask("editor/applyEdit", params, cancel))

    def _edit_params(self, document: OpenDocument, edit: Json, label: str) -> Json:
        expected = {"uri": self._uri(document.path), "sha256Before": text_sha256(document.text)}
        return {
            "label": label[:_MAX_LABEL_CHARS],
            "groupId": f"edit-{next(self._group_ids)}",
            "edits": edit,
            "expect": [expected],
        }

    def _ask(self, method: str, params: Json, cancel: CancelToken) -> ClientAnswer:
        return self._client.request(method, params, deadline_s=EDIT_DEADLINE_S, cancel=cancel)

    def _uri(self, path: Path) -> str:
        return self._documents.uri_of(path) or uri_from_path(path)

    def _workspace_edit(self, document: OpenDocument, edits: Sequence[TextEdit]) -> Json:
        uri = self._uri(document.path)
        changes = lsp_edits(document.text, edits, self._documents.encoding)
        if self._facts.takes_document_changes or "applyEdit2" in self._facts.features:
            identifier = {"uri": uri, "version": document.version}
            return {"documentChanges": [{"textDocument": identifier, "edits": changes}]}
        return {"changes": {uri: changes}}


def lsp_edits(text: str, edits: Sequence[TextEdit], encoding: str) -> list[Json]:
    """Offsets to positions. An edit that begins or ends inside CR LF takes the whole of it."""
    # pygls takes 0.3 s to import; by the time of an edit it is there.
    from oh_daemon.fronts.lsp.positions import Offsets  # noqa: PLC0415

    offsets = Offsets(text, encoding)

    def whole(edit: TextEdit) -> Json:
        start, end, new_text = edit.start, edit.end, edit.text
        if offsets.is_inside_line_end(start):
            start, new_text = start - 1, "\r" + new_text
        if offsets.is_inside_line_end(end):
            end, new_text = end + 1, new_text + "\n"
        span = {"start": offsets.position(start), "end": offsets.position(end)}
        return {"range": span, "newText": new_text}

    return [whole(edit) for edit in edits]


def _is_object(answer: ClientAnswer) -> bool:
    return answer.outcome == "answered" and isinstance(answer.result, dict)


def _outcome(answer: ClientAnswer) -> EditOutcome:
    """Anything but a clear yes is a no."""
    if answer.outcome != "answered":
        return EditOutcome(applied=False, failure=_FAILURES[answer.outcome])
    if not _is_object(answer):
        return EditOutcome(applied=False, failure="rejected")
    result = cast("Json", answer.result)
    if result.get("applied") is not True:
        failure = result.get("failure")
        reason = cast("Json", failure).get("reason") if isinstance(failure, dict) else None
        return EditOutcome(applied=False, failure=reason if reason in _REASONS else "rejected")
    documents = result.get("documents")
    reports = cast("list[Json]", documents) if isinstance(documents, list) else []
    is_saved = bool(reports) and all(report.get("saved") is True for report in reports)
    return EditOutcome(applied=True, saved=is_saved)
