"""The user's language servers as the core sees them: asked through the client, with a deadline.

Late, missing and malformed answers become errors that the agent can read. What an answer means is
left to the tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.language import Diagnostic, parse_answer
from oh_daemon.contract.to_client import DiagnosticsResult, LanguageRequestResult
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.editor_ports import ANSWER_DEADLINE_S, Offsets
from oh_daemon.core.ports import Json
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.sync import OpenDocuments
from oh_daemon.fronts.wire.client import Client

T = TypeVar("T", bound=Contract)


class ClientServers:
    """Implements `core.editor_ports.LanguageServers`; the calls that ask the client block."""

    def __init__(self, documents: OpenDocuments, client: Client, facts: ClientFacts) -> None:
        self._client = client
        self._synced = documents
        self.can_report = "diagnostics" in facts.features
        self.can_look_up = "languageRequests" in facts.features

    def diagnostics(
        self,
        paths: Sequence[Path] | None,
        *,
        min_severity: int,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> list[tuple[str, tuple[Diagnostic, ...]]]:
        """Ask for diagnostics; drop what the client sends beyond what was asked for."""
        params: Json = {"minSeverity": min_severity}
        if paths is not None:
            params["uris"] = [self._synced.uri_of(path) for path in paths]
        told = self._ask("editor/diagnostics", params, DiagnosticsResult, timeout_s, cancel)
        return [
            (item.uri, tuple(d for d in item.diagnostics if (d.severity or 1) <= min_severity))
            for item in told.items
            if paths is None or item.uri in params["uris"]
        ]

    def look_up(
        self,
        method: str,
        params: Json,
        *,
        about: Path | None = None,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> Any:
        document = {"textDocument": {"uri": self._synced.uri_of(about)}} if about else {}
        asked = {"method": method, "params": {**document, **params}}
        wanted = LanguageRequestResult
        return self._ask("editor/languageRequest", asked, wanted, timeout_s, cancel).result

    def offsets(self, text: str) -> Offsets:
        # pygls takes 0.3 s to import, so it is loaded only when needed.
        from oh_daemon.fronts.lsp.positions import Offsets as Counted  # noqa: PLC0415

        return Counted(text, self._synced.encoding)

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
