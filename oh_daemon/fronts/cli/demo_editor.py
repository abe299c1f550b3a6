"""A very small editor on the other end of the daemon's stdio: the client half of `demo`.

It keeps open buffers, applies the agent's edits to them, and answers what the daemon asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from oh_daemon.core.ports import Json
from oh_daemon.fronts.lsp.positions import changed
from oh_daemon.fronts.wire.framing import ContentLength, Message, encode, read_frames
from oh_daemon.workspace.paths import path_from_uri, uri_from_path
from oh_daemon.workspace.spawner import Spawner

_ENCODING = "utf-32"


@dataclass(slots=True)
class Buffer:
    """An open document."""

    path: Path
    text: str
    version: int = 1

    @property
    def is_saved(self) -> bool:
        return self.path.read_text("utf-8") == self.text


class DemoEditor:
    """Speaks to one daemon. For use by one thread."""

    def __init__(self, folder: Path, spawner: Spawner, environment: Mapping[str, str]) -> None:
        """Start the daemon as a child process in `folder`."""
        child_in, self._out = os.pipe()
        inbound, child_out = os.pipe()
        argv = [sys.executable, "-P", "-m", "oh_daemon", "--stdio"]
        self.process = spawner.spawn(
            argv, cwd=folder, env=environment, fds=[child_in, child_out, sys.stderr.fileno()]
        )
        os.close(child_in)
        os.close(child_out)
        self._framing = ContentLength()
        self._frames = read_frames(inbound, self._framing)
        self._next_id = 0
        self.folder = folder
        self.buffers: dict[str, Buffer] = {}

    def start(self) -> None:
        """Say hello as an editor would, with everything that this one can do."""
        uri = uri_from_path(self.folder)
        features = {"applyEdit2": True, "saveDocument": True, "approvalRequests": True}
        block = {
            "protocolVersion": {"major": 1, "minor": 0},
            "client": {"name": "oh-daemon demo", "version": "1", "kind": "script"},
            "features": features,
            "trust": [{"folder": uri, "trusted": True}],
        }
        self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "workspaceFolders": [{"uri": uri, "name": self.folder.name}],
                "capabilities": {"general": {"positionEncodings": [_ENCODING]}},
                "initializationOptions": {"ohDaemon": block},
            },
        )
        self.notify("initialized", {})

    def open(self, path: Path, text: str | None = None) -> Buffer:
        """Open a file; with `text`, as if the user had then replaced its text without saving."""
        uri = uri_from_path(path)
        buffer = self.buffers[uri] = Buffer(path, path.read_text("utf-8"))
        opened = {"uri": uri, "languageId": "text", "version": 1, "text": buffer.text}
        self.notify("textDocument/didOpen", {"textDocument": opened})
        if text is not None:
            self._change(buffer, uri, text)
        return buffer

    def request(self, method: str, params: Json) -> Json:
        """Ask and wait, serving the daemon meanwhile. Raises `RuntimeError` with its error."""
        self._next_id += 1
        request_id = self._next_id
        self._send({"id": request_id, "method": method, "params": params})
        for message in self.messages():
            if message.get("id") == request_id and "method" not in message:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return cast("Json", message["result"])
        raise RuntimeError("the daemon ended; its log file says why")

    def messages(self) -> Iterator[Json]:
        """Yield everything the daemon sends, and answer its requests."""
        for frame in self._frames:
            if not isinstance(frame, Message):
                continue
            message: Json = frame.value
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": self._answer(message)})
            yield message

    def notify(self, method: str, params: Json) -> None:
        self._send({"method": method, "params": params})

    def stop(self) -> int | None:
        """Shut the daemon down; return its exit code, or None when it did not end in time."""
        self.request("shutdown", {})
        self.notify("exit", {})
        os.close(self._out)
        return self.process.wait(5)

    def _send(self, message: Json) -> None:
        data = self._framing.framed(encode({"jsonrpc": "2.0", **message}))
        while data:
            data = data[os.write(self._out, data) :]

    def _answer(self, message: Json) -> Json:
        params: Json = message["params"]
        match message["method"]:
            case "editor/applyEdit":
                return self._apply(params)
            case "editor/saveDocument":
                return {"saved": [uri for uri in params["uris"] if self._save(uri)]}
            case "approval/request":
                return {"optionId": params["options"][0]["id"]}
            case _:
                return {}

    def _apply(self, params: Json) -> Json:
        [change] = params["edit"]["documentChanges"]
        uri = change["textDocument"]["uri"]
        buffer = self.buffers.get(uri)
        if buffer is None or buffer.version != change["textDocument"]["version"]:
            return {"applied": False, "failureReason": "stale"}
        was_saved = buffer.is_saved
        # From the last to the first, so that no edit moves another.
        edits = sorted(change["edits"], key=_start, reverse=True)
        parts = [{"range": edit["range"], "text": edit["newText"]} for edit in edits]
        self._change(buffer, uri, changed(buffer.text, parts, _ENCODING))
        saves = params["save"] == "ifWasClean" and was_saved
        return {"applied": True, "saved": saves and self._save(uri)}

    def _change(self, buffer: Buffer, uri: str, text: str) -> None:
        buffer.text, buffer.version = text, buffer.version + 1
        document = {"uri": uri, "version": buffer.version}
        changes = [{"text": text}]
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def _save(self, uri: str) -> bool:
        buffer = self.buffers.get(uri)
        path = path_from_uri(uri)
        if buffer is None or path is None:
            return False
        path.write_text(buffer.text, "utf-8")
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        return True


def _start(edit: Json) -> tuple[int, int]:
    start = edit["range"]["start"]
    return start["line"], start["character"]
