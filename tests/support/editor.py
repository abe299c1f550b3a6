"""An editor on top of the raw client: buffers, text synchronisation, and bad habits on demand."""

import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from world import World

from oh_daemon.conformance.rpc_process import NoAnswer

Json = dict[str, Any]
OURS = {"applyEdit2": True, "readDocument": True, "saveDocument": True}
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass
class Buffer:
    path: Path
    text: str
    saved_text: str
    version: int = 1
    undo: list[str] = field(default_factory=list[str])


class Editor:
    """Honest by default; each entry of `habits` decides how one edit is treated, in order."""

    def __init__(
        self,
        world: World,
        *,
        features: Json = OURS,
        capabilities: Json | None = None,
        encoding: str = "utf-16",
        settings: Json | None = None,
    ) -> None:
        general = {"positionEncodings": [encoding]}
        self.encoding = encoding
        self.buffers: dict[str, Buffer] = {}
        self.requests: list[tuple[str, Json]] = []
        self.habits: list[Callable[[Buffer], Json | None]] = []
        self.formatter: Callable[[str], str] | None = None
        """What it makes of a text before it saves it."""
        self.is_silent = False
        """Whether it keeps quiet about its changes."""
        self.telling = threading.Thread()
        """The thread that tells about a change later."""
        params = {"capabilities": {"general": general, **(capabilities or {})}}
        more: Any = {} if settings is None else {"settings": settings}
        self.client = world.daemon(params=params, features=features, **more)
        self.client.answer("editor/applyEdit", self._on_apply)
        self.client.answer("workspace/applyEdit", self._on_apply)
        self.client.answer("editor/readDocument", self._on_read)
        self.client.answer("editor/saveDocument", self._on_save)
        assert self.client.capabilities["positionEncoding"] == encoding
        world.stack.callback(self._close_all)

    def open(self, path: Path, typed_text: str | None = None) -> Buffer:
        """Open a file; `typed` is the text that the user has made of it and not saved."""
        saved_text = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        buffer = self.buffers[path.as_uri()] = Buffer(path, saved_text, saved_text)
        document = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": saved_text}
        self.client.notify("textDocument/didOpen", {"textDocument": document})
        if typed_text is not None:
            self.type(path, typed_text)
        return buffer

    def _close_all(self) -> None:
        """Close all buffers, for the next test on this connection."""
        if self.client.process.poll() is None:
            for uri in self.buffers:
                self.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def type(self, path: Path, text: str) -> None:
        buffer = self.buffers[path.as_uri()]
        buffer.text, buffer.version = text, buffer.version + 1
        self.notify_change(buffer)

    def save(self, path: Path) -> None:
        self._save(self.buffers[path.as_uri()])

    def notify_change(self, buffer: Buffer) -> None:
        params = {"uri": buffer.path.as_uri(), "version": buffer.version}
        change = {"textDocument": params, "contentChanges": [{"text": buffer.text}]}
        self.client.notify("textDocument/didChange", change)

    def edits(self) -> list[Json]:
        """Return the params of every edit that was asked for."""
        return [params for method, params in self.requests if method.endswith("applyEdit")]

    def _on_apply(self, params: Json) -> Json:
        self.requests.append(("editor/applyEdit", params))
        uri, version, edits = _read_edit(params["edit"])
        buffer = self.buffers[uri]
        if self.habits:
            answer = self.habits.pop(0)(buffer)
            if answer is not None:
                return answer
        if version is not None and version != buffer.version:
            return {"applied": False, "failureReason": "stale"}
        was_clean = buffer.text == buffer.saved_text
        buffer.undo.append(buffer.text)
        buffer.text, buffer.version = self._apply(buffer.text, edits), buffer.version + 1
        if not self.is_silent:
            self.notify_change(buffer)
        saves = params.get("save") == "ifWasClean" and was_clean
        if saves:
            self._save(buffer)
        return {"applied": True, "saved": saves}

    def _apply(self, text: str, edits: Sequence[Json]) -> str:
        spans = [
            (*(self.offset(text, e["range"][end]) for end in ("start", "end")), e["newText"])
            for e in edits
        ]
        for start, end, new_text in sorted(spans, reverse=True):
            text = text[:start] + new_text + text[end:]
        return text

    def offset(self, text: str, position: Json) -> int:
        start = _starts(text)[position["line"]]
        codec, size = _CODECS[self.encoding]
        units = text[start:].encode(codec)[: position["character"] * size]
        return start + len(units.decode(codec))

    def position(self, text: str, offset: int) -> Json:
        line = bisect_right(_starts(text), offset) - 1
        codec, size = _CODECS[self.encoding]
        units = text[_starts(text)[line] : offset].encode(codec)
        return {"line": line, "character": len(units) // size}

    def _on_read(self, params: Json) -> Json:
        self.requests.append(("editor/readDocument", params))
        buffer = self.buffers[params["uri"]]
        dirty = buffer.text != buffer.saved_text
        return {"text": buffer.text, "version": buffer.version, "dirty": dirty}

    def _on_save(self, params: Json) -> Json:
        self.requests.append(("editor/saveDocument", params))
        for uri in params["uris"]:
            self._save(self.buffers[uri])
        return {"saved": params["uris"]}

    def _save(self, buffer: Buffer) -> None:
        if self.formatter is not None:
            self.type(buffer.path, self.formatter(buffer.text))
        buffer.path.write_bytes(buffer.text.encode())
        buffer.saved_text = buffer.text
        params = {"textDocument": {"uri": buffer.path.as_uri()}}
        self.client.notify("textDocument/didSave", params)


def _starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]


def _read_edit(edit: Json) -> tuple[str, int | None, list[Json]]:
    if "documentChanges" in edit:
        [change] = edit["documentChanges"]
        return change["textDocument"]["uri"], change["textDocument"]["version"], change["edits"]
    [(uri, edits)] = edit["changes"].items()
    return uri, None, edits


# Habits


def pretend(_buffer: Buffer) -> Json:
    """Say yes and do nothing, as Neovim does with an edit of an old version."""
    return {"applied": True}


def refuse(reason: str) -> Callable[[Buffer], Json]:
    return lambda _buffer: {"applied": False, "failureReason": reason}


def ignore(_buffer: Buffer) -> None:
    raise NoAnswer


def late(editor: Editor) -> Callable[[Buffer], None]:
    """Do the edit, but tell the daemon about it only a moment after the answer."""

    def habit(buffer: Buffer) -> None:
        editor.is_silent = True
        editor.telling = threading.Timer(0.3, lambda: editor.notify_change(buffer))
        editor.telling.start()

    return habit


def typing(editor: Editor, change: Callable[[str], str]) -> Callable[[Buffer], None]:
    """Let the user type while the edit is in progress."""
    return lambda buffer: editor.type(buffer.path, change(buffer.text))
