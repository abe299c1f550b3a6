"""An editor with nothing but an LSP client, as far as a chat needs it: buffers, edits, messages.

`CLIENTS` has what real clients say of themselves, so that a test can be one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raw_client import RawClient

from oh_daemon.conformance.rpc_process import RpcError

Json = dict[str, Any]

_WINDOW = {"workDoneProgress": True}
_LITERALS = {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix"]}}}
CLIENTS: dict[str, Json] = {
    "helix": {
        "general": {"positionEncodings": ["utf-8", "utf-32", "utf-16"]},
        "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
        "textDocument": {"codeAction": _LITERALS},
        "window": {**_WINDOW, "showDocument": {"support": True}},
    },
    "vim-lsp": {
        "workspace": {"applyEdit": True, "configuration": True},
        "textDocument": {"codeAction": _LITERALS, "codeLens": {}},
        "window": _WINDOW,
    },
    # It takes edits only as the outcome of what its user does.
    "kak-lsp": {
        "workspace": {
            "applyEdit": False,
            "codeLens": {"refreshSupport": True},
            "workspaceEdit": {"documentChanges": True},
        },
        "textDocument": {"codeAction": _LITERALS, "codeLens": {}},
        "window": _WINDOW,
    },
}


class PlainEditor:
    """Buffers by path. It saves nothing by itself."""

    def __init__(self, client: RawClient, folder: Path, capabilities: Json) -> None:
        self.client = client
        self.buffers: dict[Path, str] = {}
        self.shown_paths: list[Path] = []
        self.edits: list[Json] = []
        """Params of every `workspace/applyEdit`."""
        self.refusals: list[Json] = []
        """Those of them that were for another text."""
        self.choose: Callable[[Json], str | None] = lambda _asked: None
        """Picks the button of a message by what is asked; None closes it."""
        self.reports_edits = True
        """False: as eglot does for a user who is not idle, it applies edits and sends no change."""
        self.before_edit: Callable[[], None] = lambda: None
        self.while_opening: Callable[[str], None] = lambda _text: None
        """Called with the text that was read, before the daemon is told of it."""
        self._versions: dict[Path, int] = {}
        self._condition = threading.Condition(threading.RLock())
        encodings = capabilities.get("general", {}).get("positionEncodings", ["utf-16"])
        self._width = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encodings[0]]
        workspace, window = capabilities["workspace"], capabilities["window"]
        self.takes_edits: bool = workspace["applyEdit"]
        self.shows_documents = "showDocument" in window
        if self.takes_edits:
            client.answer("workspace/applyEdit", self._apply)
        if self.shows_documents:
            client.answer("window/showDocument", self._show)
        client.answer("workspace/configuration", lambda _params: [None])
        client.answer("workspace/codeLens/refresh", lambda _params: None)
        client.answer("window/showMessageRequest", self._ask)
        client.answer("window/workDoneProgress/create", lambda _params: None)
        client.initialize([folder], params={"capabilities": capabilities})

    def run(self, name: str, *arguments: object) -> Any:
        params = {"command": name, "arguments": list(arguments)}
        return self.client.request("workspace/executeCommand", params)

    def open(self, path: Path) -> None:
        with self._condition:
            self.buffers[path], self._versions[path] = path.read_text(), 1
            item = {"uri": path.as_uri(), "languageId": "markdown", "version": 1}
            document = {**item, "text": self.buffers[path]}
            self.while_opening(self.buffers[path])
            self.client.notify("textDocument/didOpen", {"textDocument": document})
            self._condition.notify_all()

    def type(self, path: Path, text: str) -> None:
        """Type at the end of a buffer."""
        with self._condition:
            self._replace(path, self.buffers[path] + text)

    def put(self, path: Path, text: str) -> None:
        """Give a buffer another text."""
        with self._condition:
            self._replace(path, text)

    def problem_lines(self, path: Path) -> list[int]:
        """Return the lines of the problems that were published last, of the buffer's first text."""
        notifications = self.client.notifications("textDocument/publishDiagnostics")
        last = [each for each in notifications if each["uri"] == path.as_uri()][-1]
        return [each["range"]["start"]["line"] for each in last["diagnostics"]]

    def save(self, path: Path) -> None:
        with self._condition:
            path.write_text(self.buffers[path])
            uri = {"uri": path.as_uri()}
            self.client.notify("textDocument/didSave", {"textDocument": uri})

    def close(self, path: Path) -> None:
        with self._condition:
            del self.buffers[path]
            uri = {"uri": path.as_uri()}
            self.client.notify("textDocument/didClose", {"textDocument": uri})

    def wait_for(self, path: Path, words: str, within_s: float = 60) -> str:
        """Wait until the words are in the buffer; return its text."""
        with self._condition:
            self._condition.wait_for(lambda: words in self.buffers.get(path, ""), within_s)
            assert words in self.buffers[path], self.buffers[path]
            return self.buffers[path]

    def actions(self, path: Path, line: int = 0) -> dict[str, Json]:
        """Return the code actions in a line, by title."""
        start = {"line": line, "character": 0}
        params = {
            "textDocument": {"uri": path.as_uri()},
            "range": {"start": start, "end": start},
            "context": {"diagnostics": [], "triggerKind": 1},
        }
        return {a["title"]: a for a in self.client.request("textDocument/codeAction", params)}

    def click(self, action: Json) -> Any:
        return self.client.request("workspace/executeCommand", action)

    def _replace(self, path: Path, text: str) -> None:
        self.buffers[path] = text
        self._versions[path] += 1
        document = {"uri": path.as_uri(), "version": self._versions[path]}
        change = {"textDocument": document, "contentChanges": [{"text": text}]}
        self.client.notify("textDocument/didChange", change)
        self._condition.notify_all()

    def _apply(self, params: Json) -> Json:
        self.before_edit()
        with self._condition:
            self.edits.append(params)
            edit: Json = params["edit"]
            request_params = [
                {"textDocument": {"uri": uri}, "edits": edits}
                for uri, edits in edit.get("changes", {}).items()
            ]
            change: Json = (edit.get("documentChanges") or request_params)[0]
            path = Path(change["textDocument"]["uri"].removeprefix("file://").replace("%20", " "))
            version = change["textDocument"].get("version")
            if path not in self.buffers or version not in (None, self._versions[path]):
                self.refusals.append(params)
                return {"applied": False}
            text = self.buffers[path]
            for edit in reversed(change["edits"]):
                start, end = (self._offset(text, edit["range"][side]) for side in ("start", "end"))
                text = text[:start] + edit["newText"] + text[end:]
            if self.reports_edits:
                self._replace(path, text)
            else:
                self.buffers[path], self._versions[path] = text, self._versions[path] + 1
            return {"applied": True}

    def _offset(self, text: str, position: Json) -> int:
        lines = text.split("\n")
        line = lines[position["line"]]
        unit = {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[self._width]
        before = line.encode(self._width)[: position["character"] * unit].decode(self._width)
        return sum(len(each) + 1 for each in lines[: position["line"]]) + len(before)

    def _show(self, params: Json) -> Json:
        path = Path(params["uri"].removeprefix("file://").replace("%20", " "))
        self.open(path)
        with self._condition:
            self.shown_paths.append(path)
            self._condition.notify_all()
        return {"success": True}

    def _ask(self, params: Json) -> Json | None:
        title = self.choose(params)
        if title == "unsupported":
            raise RpcError({"code": -32601, "message": "no such method"})
        return {"title": title} if title else None

    def wait_for_shown(self, n: int = 1, within_s: float = 60) -> Path:
        """Wait for the nth document that was shown."""
        with self._condition:
            self._condition.wait_for(lambda: len(self.shown_paths) >= n, within_s)
            return self.shown_paths[n - 1]
