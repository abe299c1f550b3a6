"""A very small editor on the other end of the daemon's stdio: the client half of `demo`.

It keeps open buffers, applies the agent's edits to them, and answers what the daemon asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from oh_daemon.frontends.client.child import start_daemon
from oh_daemon.frontends.lsp.positions import apply_changes
from oh_daemon.jsonrpc.dispatch import Method, RequestContext
from oh_daemon.kernel.ports import Json
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

_ENCODING = "utf-32"


class Buffer(Struct):
    """An open document."""

    path: Path
    text: str
    version: int = 1

    @property
    def is_saved(self) -> bool:
        return self.path.read_text("utf-8") == self.text


class DemoEditor:
    """Has one daemon as a child. The daemon's requests change buffers; opening does before."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Start the daemon in `folder`."""
        methods: dict[str, Method] = {
            "editor/applyEdit": self._apply,
            "editor/saveDocument": lambda params, _: {
                "saved": [uri for uri in params["uris"] if self._save(uri)]
            },
            "approval/request": lambda params, _: {"optionId": params["options"][0]["id"]},
        }
        self.daemon = start_daemon(cwd=folder, environment=environment, methods=methods)
        self.folder = folder
        self.buffers: dict[str, Buffer] = {}

    def start(self) -> None:
        """Say hello as an editor would, with everything that this one can do."""
        self.daemon.initialize(
            [self.folder],
            client={"name": "oh-daemon demo", "version": "1", "kind": "script"},
            features={"applyEdit2": True, "saveDocument": True, "approvalRequests": True},
            trust=[{"folder": uri_from_path(self.folder), "trusted": True}],
        )

    def open(self, path: Path, text: str | None = None) -> Buffer:
        """Open a file; with `text`, as if the user had then replaced its text without saving."""
        uri = uri_from_path(path)
        buffer = self.buffers[uri] = Buffer(path, path.read_text("utf-8"))
        document = {"uri": uri, "languageId": "text", "version": 1, "text": buffer.text}
        self.daemon.notify("textDocument/didOpen", {"textDocument": document})
        if text is not None:
            self._change(buffer, uri, text)
        return buffer

    def _apply(self, params: Json, _context: RequestContext) -> Json:
        [change] = params["edit"]["documentChanges"]
        uri = change["textDocument"]["uri"]
        buffer = self.buffers.get(uri)
        if buffer is None or buffer.version != change["textDocument"]["version"]:
            return {"applied": False, "failureReason": "stale"}
        was_saved = buffer.is_saved
        # From the last to the first, so that no edit moves another.
        edits = sorted(change["edits"], key=_start, reverse=True)
        parts = [{"range": edit["range"], "text": edit["newText"]} for edit in edits]
        self._change(buffer, uri, apply_changes(buffer.text, parts, _ENCODING))
        saves = params["save"] == "ifWasClean" and was_saved
        return {"applied": True, "saved": saves and self._save(uri)}

    def _change(self, buffer: Buffer, uri: str, text: str) -> None:
        buffer.text, buffer.version = text, buffer.version + 1
        document = {"uri": uri, "version": buffer.version}
        changes = [{"text": text}]
        self.daemon.notify(
            "textDocument/didChange", {"textDocument": document, "contentChanges": changes}
        )

    def _save(self, uri: str) -> bool:
        buffer = self.buffers.get(uri)
        path = path_from_uri(uri)
        if buffer is None or path is None:
            return False
        path.write_text(buffer.text, "utf-8")
        self.daemon.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        return True


def _start(edit: Json) -> tuple[int, int]:
    start = edit["range"]["start"]
    return start["line"], start["character"]
