"""The client's open documents and folders, kept by LSP's text synchronisation.

The main loop changes them in arrival order; any thread may read frozen snapshots and wait for a
text. Documents above 5 MiB are not kept: they count as not open, so the disk is used. Who has the
truth, buffer or disk, is decided in `workspace/documents`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import OpenDocument
from oh_daemon.workspace.paths import path_from_uri

log = logging.getLogger(__name__)

MAX_DOCUMENT_BYTES = 5 * 1024 * 1024
_URI = re.compile(rb'"uri"\s*:\s*"((?:[^"\\]|\\/)*)"')

Json = dict[str, Any]


def text_sha256(text: str) -> str:
    """The hash of a document's text as UTF-8, exactly as synced."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class _Open:
    uri: str
    real_path: str
    snapshot: OpenDocument
    adopted_version: int = -1


class Documents:
    """Reads may come from any thread; `notifications` belong to the main loop."""

    def __init__(self, encoding: str, folder_uris: Sequence[str] = ()) -> None:
        self.encoding = encoding
        self._changed = threading.Condition()
        self._open: dict[str, _Open] = {}
        """By the URI under which the client opened it, letter by letter."""
        self._folder_uris = list(folder_uris)

    def notifications(self) -> dict[str, Callable[[Json], None]]:
        """The handlers to register with the dispatcher."""
        return {
            "textDocument/didOpen": self._did_open,
            "textDocument/didChange": self._did_change,
            "textDocument/didClose": lambda params: self._forget(params["textDocument"]["uri"]),
            "textDocument/didSave": lambda _params: self._wake(),
            "workspace/didChangeWorkspaceFolders": self._did_change_folders,
        }

    def folders(self) -> tuple[Path, ...]:
        """The workspace folders on this machine, in the client's order."""
        with self._changed:
            paths = [path_from_uri(uri) for uri in self._folder_uris]
        return tuple(path for path in paths if path is not None)

    def document(self, path: Path) -> OpenDocument | None:
        """The newest text of an open document, under whatever name the client opened it."""
        real_path = os.path.realpath(path)
        with self._changed:
            return self._snapshot(real_path)

    def documents(self) -> tuple[OpenDocument, ...]:
        with self._changed:
            return tuple(entry.snapshot for entry in self._open.values())

    def uri_of(self, path: Path) -> str | None:
        """The URI under which the client opened this document, letter by letter."""
        real_path = os.path.realpath(path)
        with self._changed:
            found = self._find(real_path)
            return found.uri if found else None

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        """Wait until the text has this hash; None when it did not come to that in time.

        Raises `Cancelled`.
        """
        deadline = time.monotonic() + timeout_s
        real_path = os.path.realpath(path)
        seen: OpenDocument | None = None
        unregister = cancel.on_cancel(self._wake)
        try:
            while self._wait_for_other(real_path, seen, deadline, cancel):
                cancel.raise_if_cancelled()
                seen = self.document(path)
                if seen is not None and text_sha256(seen.text) == sha256:
                    return seen
        finally:
            unregister()
        return None

    def adopt(self, uri: str, text: str, version: int) -> None:
        """Take what the client says it shows; its late news of older versions is passed over."""
        with self._changed:
            entry = self._open.get(uri)
            if entry is not None and version > entry.snapshot.version:
                entry.snapshot = OpenDocument(entry.snapshot.path, version, text)
                entry.adopted_version = version
                self._changed.notify_all()

    def on_lost_frame(self, head: bytes) -> None:
        """A message was too large to read: the text of the document it names is unknown now."""
        named = _URI.search(head)
        uri = named[1].decode("utf-8", "replace").replace("\\/", "/") if named else ""
        for lost in [uri] if uri in self._open else list(self._open):
            log.warning("%s is not followed any more: a message about it was too large", lost)
            self._forget(lost)

    def _find(self, real_path: str) -> _Open | None:
        """The latest one, when a file is open under several names."""
        entries = reversed(self._open.values())
        return next((entry for entry in entries if entry.real_path == real_path), None)

    def _snapshot(self, real_path: str) -> OpenDocument | None:
        found = self._find(real_path)
        return found.snapshot if found else None

    def _wait_for_other(
        self, real_path: str, seen: OpenDocument | None, deadline: float, cancel: CancelToken
    ) -> bool:
        """Wait for a text that is not `seen`, or for the cancel; false after the deadline."""
        with self._changed:
            return self._changed.wait_for(
                lambda: cancel.is_cancelled or self._snapshot(real_path) is not seen,
                deadline - time.monotonic(),
            )

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _did_open(self, params: Json) -> None:
        opened = params["textDocument"]
        uri, text, path = opened["uri"], opened["text"], path_from_uri(opened["uri"])
        self._forget(uri)
        if path is None or _is_too_large(text):
            log.info("%.200s is not kept: no file here, or too large", uri)
            return
        snapshot = OpenDocument(path, opened.get("version", 0), text)
        with self._changed:
            self._open[uri] = _Open(uri, os.path.realpath(path), snapshot)
            self._changed.notify_all()

    def _did_change(self, params: Json) -> None:
        # pygls takes 0.3 s to import; this waits for the import that began after `initialize`.
        from oh_daemon.fronts.lsp.positions import changed  # noqa: PLC0415

        named = params["textDocument"]
        entry = self._open.get(named["uri"])
        if entry is None:
            return
        before, version = entry.snapshot, named.get("version")
        if version is not None and version <= entry.adopted_version:
            return
        is_kept = False
        try:
            text = changed(before.text, params["contentChanges"], self.encoding)
            is_kept = not _is_too_large(text)
        finally:
            if not is_kept:
                # Half a change leaves a text that nobody sees; without it the disk is used.
                self._forget(entry.uri)
        if is_kept:
            version = before.version if version is None else version
            with self._changed:
                entry.snapshot = OpenDocument(before.path, version, text)
                self._changed.notify_all()

    def _forget(self, uri: str) -> None:
        with self._changed:
            self._open.pop(uri, None)
            self._changed.notify_all()

    def _did_change_folders(self, params: Json) -> None:
        removed = {folder["uri"] for folder in params["event"]["removed"]}
        added = [folder["uri"] for folder in params["event"]["added"]]
        with self._changed:
            kept = [uri for uri in self._folder_uris if uri not in removed and uri not in added]
            self._folder_uris = kept + added
            self._changed.notify_all()


def _is_too_large(text: str) -> bool:
    # No character takes more than four bytes, so most texts need not be encoded to know.
    if len(text) * 4 <= MAX_DOCUMENT_BYTES:
        return False
    return len(text.encode("utf-8", "surrogatepass")) > MAX_DOCUMENT_BYTES
