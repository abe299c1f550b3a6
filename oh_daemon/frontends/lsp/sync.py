"""The client's open documents and folders, kept by LSP's text synchronisation.

The main loop changes them in arrival order; any thread may read frozen snapshots and wait for a
text. A document above 5 MiB is not followed: its text is unknown until the client is asked for it,
and again after its next change. `workspace/documents` decides which text counts.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.editor_ports import OpenDocument
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

log = logging.getLogger(__name__)

MAX_DOCUMENT_BYTES = 5 * 1024 * 1024
_URI = re.compile(rb'"uri"\s*:\s*"((?:[^"\\]|\\/)*)"')

Json = dict[str, Any]


class OpenDocuments:
    """Reads may come from any thread; `notifications` and `follow` belong to the main loop."""

    def __init__(self, encoding: str, folder_uris: Sequence[str] = ()) -> None:
        self.encoding = encoding
        self._condition = threading.Condition()
        self._open: dict[str, tuple[str, OpenDocument]] = {}
        """Real path and document, by URI exactly as the client wrote it on opening."""
        self._clean_texts: dict[str, str] = {}
        """The text of each open document when it was opened or last saved, by URI."""
        self._texts_sent: dict[str, str] = {}
        """The text that the client sent last of a document whose text is assumed, by URI."""
        self._strays: dict[str, str] = {}
        """URI, by real path, of open documents whose text is unknown."""
        self._unreadable = set[str]()
        """URIs of those whose text the client did not return when asked, until their next news."""
        self._adopted_versions: dict[str, int] = {}
        """Versions of texts that the client sent when asked, by URI; older changes are skipped."""
        self._folder_uris = list(folder_uris)
        self._notes: list[dict[Path, str]] = []
        """One per `note_saves` that has not ended: the texts saved since then."""
        self._listeners: tuple[Callable[[Path], None], ...] = ()
        self._is_warm = False

    def notifications(self) -> dict[str, Callable[[Json], None]]:
        """Return the handlers to register with the dispatcher."""
        return {
            "textDocument/didOpen": self._did_open,
            "textDocument/didChange": self._did_change,
            "textDocument/didClose": lambda params: self._did_close(params["textDocument"]["uri"]),
            "textDocument/didSave": self._did_save,
            "workspace/didChangeWorkspaceFolders": self._did_change_folders,
        }

    def folders(self) -> tuple[Path, ...]:
        """Return the workspace folders on this machine, in the client's order."""
        # A copy needs no lock, and each step of each conversation asks.
        paths = [path_from_uri(uri) for uri in tuple(self._folder_uris)]
        return tuple(path for path in paths if path is not None)

    def document(self, path: Path) -> OpenDocument | None:
        """Return the newest state of an open document, under whatever name it was opened."""
        if not self._open:
            return None  # Each applied file asks, and to resolve a path takes long.
        document = self._find(os.path.realpath(path))
        return document[1] if document else None

    def documents(self) -> tuple[OpenDocument, ...]:
        with self._condition:
            return tuple(document for _, document in self._open.values())

    def uris(self) -> tuple[str, ...]:
        """Return the URIs of the open documents as the client wrote them, unknown texts last."""
        with self._condition:
            return (*self._open, *self._strays.values())

    def unsaved_uris(self) -> tuple[str, ...]:
        """Return those whose text is no longer the one that was opened or saved."""
        with self._condition:
            open_items = self._open.items()
            return tuple(
                uri for uri, (_, now) in open_items if now.text != self._clean_texts.get(uri)
            )

    def is_unsaved(self, path: Path) -> bool:
        return self.uri_of(path) in self.unsaved_uris()

    def note_saves(self) -> Callable[[], Mapping[Path, str]]:
        """Note what the client saves from now on.

        The returned function ends that and returns the saved texts by real path.
        """
        save_notes: dict[Path, str] = {}
        with self._condition:
            self._notes.append(save_notes)

        def end_notes() -> Mapping[Path, str]:
            with self._condition:
                self._notes = [note for note in self._notes if note is not save_notes]
            return save_notes

        return end_notes

    def listen(self, on_change: Callable[[Path], None]) -> Callable[[], None]:
        """Call this with the real path of each text that changes, is saved or closed."""
        with self._condition:
            self._listeners = (*self._listeners, on_change)

        def end() -> None:
            with self._condition:
                self._listeners = tuple(one for one in self._listeners if one is not on_change)

        return end

    def _notify(self, path: Path | None) -> None:
        if path is None or not self._listeners:
            return
        real_path = Path(os.path.realpath(path))
        for on_change in self._listeners:
            on_change(real_path)

    def uri_of(self, path: Path) -> str:
        """Return the URI exactly as the client opened this document, else the usual one."""
        document = self._find(os.path.realpath(path))
        return document[0] if document else self.unknown_uri(path) or uri_from_path(path)

    def unknown_uri(self, path: Path) -> str | None:
        """Return the URI of a document that is open, but whose text is unknown."""
        if not self._strays:
            return None
        with self._condition:
            return self._strays.get(os.path.realpath(path))

    def is_readable(self, uri: str) -> bool:
        """Return whether it makes sense to ask the client for the text."""
        return uri not in self._unreadable

    def note_unreadable(self, uri: str) -> None:
        """Note that the client did not return the text of this document."""
        self._unreadable.add(uri)

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        """Wait until the text has this hash; return None if it does not in time, or is unknown.

        Raises `Cancelled`.
        """
        real_path = os.path.realpath(path)

        def arrived_document() -> OpenDocument | None:
            document = self._find(real_path)
            return document[1] if document and sha256_of(document[1].text) == sha256 else None

        with cancel.notifying(self._condition), self._condition:
            self._condition.wait_for(
                lambda: cancel.is_cancelled or real_path in self._strays or arrived_document(),
                timeout_s,
            )
            cancel.raise_if_cancelled()
            return arrived_document()

    def on_lost_frame(self, head: bytes) -> None:
        """Lose the document named in a message that was too large, or all if none is named."""
        match = _URI.search(head)
        uri = match[1].decode("utf-8", "replace").replace("\\/", "/") if match else ""
        for lost_uri in [uri] if uri in self._open else list(self._open):
            log.warning("%s is not followed any more: a message about it was too large", lost_uri)
            self._lose(lost_uri)

    def follow(self, uri: str, version: int, text: str | None) -> None:
        """Follow the document from this text on, or up to its next change if it is large.

        Stop following if `text` is None.
        """
        path = path_from_uri(uri)
        with self._condition:
            self._texts_sent.pop(uri, None)
            self._strays = {
                real: stray_uri for real, stray_uri in self._strays.items() if stray_uri != uri
            }
            if path is None or text is None:
                self._open.pop(uri, None)
                self._clean_texts.pop(uri, None)
            else:
                document = OpenDocument(path, version, text)
                self._open[uri] = (os.path.realpath(path), document)
            self._condition.notify_all()
        self._notify(path)

    def adopt(self, uri: str, text: str, version: int | None) -> None:
        """Take what the client says it shows; late changes to older versions are then skipped."""
        with self._condition:
            is_newer = version is not None and (
                uri in self._open and version > self._open[uri][1].version
            )
            if is_newer or uri in self._strays.values():
                if version is not None:
                    self._adopted_versions[uri] = version
                self.follow(uri, version or 0, text)

    def assume(self, document: OpenDocument, text: str) -> bool:
        """Show `text` until the client's next change, which starts at the text that it sent last.

        Return False if the document has changed since `document`, or is closed.
        """
        with self._condition:
            uri, newest_document = self._find(os.path.realpath(document.path)) or ("", None)
            if newest_document != document:
                return False
            text_sent = self._texts_sent.get(uri, document.text)
            self.follow(uri, document.version, text)
            self._texts_sent[uri] = text_sent
            return True

    def _lose(self, uri: str) -> None:
        with self._condition:
            real_path, _ = self._open.pop(uri)
            self._texts_sent.pop(uri, None)
            self._strays[real_path] = uri
            self._condition.notify_all()
        self._notify(path_from_uri(uri))

    def _find(self, real_path: str) -> tuple[str, OpenDocument] | None:
        """Return URI and document; the latest one when a file is open under several names."""
        with self._condition:
            for uri, (real, document) in reversed(self._open.items()):
                if real == real_path:
                    return uri, document
        return None

    def _did_open(self, params: Json) -> None:
        if not self._is_warm:
            # pygls takes 0.3 s and 15 MB, which a window without documents never pays for.
            self._is_warm = True
            modules = ("oh_daemon.frontends.lsp.positions",)
            threading.Thread(
                target=import_module, args=modules, name="warm-up", daemon=True
            ).start()
        document = params["textDocument"]
        self._did_close(document["uri"])
        self._adopted_versions.pop(document["uri"], None)
        self._clean_texts[document["uri"]] = document["text"]
        self._take(document["uri"], document.get("version", 0), document["text"])

    def _take(self, uri: str, version: int, text: str) -> None:
        """Follow the document, unless it is too large."""
        self.follow(uri, version, text)
        if uri in self._open and _is_too_large(text):
            self._lose(uri)

    def _did_close(self, uri: str) -> None:
        self._unreadable.discard(uri)
        self.follow(uri, 0, None)

    def _did_change(self, params: Json) -> None:
        from oh_daemon.frontends.lsp.positions import apply_changes  # noqa: PLC0415 - see `_did_open`.

        uri, version = params["textDocument"]["uri"], params["textDocument"].get("version")
        is_old = version is not None and version <= self._adopted_versions.get(uri, -1)
        self._unreadable.discard(uri)
        if is_old or uri not in self._open:
            return
        _, before = self._open[uri]
        if _is_too_large(before.text):
            # To follow it would take the main loop tens of milliseconds for each key.
            self._lose(uri)
            return
        try:
            text_sent = self._texts_sent.get(uri, before.text)
            text = apply_changes(text_sent, params["contentChanges"], self.encoding)
        except Exception:
            # A change that was only half applied would leave a text that nobody sees.
            self._lose(uri)
            raise
        self._take(uri, before.version if version is None else version, text)

    def _did_save(self, params: Json) -> None:
        uri = params["textDocument"]["uri"]
        self._unreadable.discard(uri)
        with self._condition:
            if (text_sent := self._texts_sent.get(uri)) is not None:
                # All changes are sent before a save is, so the assumed edit was not made.
                self.follow(uri, self._open[uri][1].version, text_sent)
            if saved_document := self._open.get(uri):
                real_path, document = saved_document
                self._clean_texts[uri] = document.text
                for note in self._notes:
                    note[Path(real_path)] = document.text
        self._notify(path_from_uri(uri))

    def _did_change_folders(self, params: Json) -> None:
        removed_uris = {folder["uri"] for folder in params["event"]["removed"]}
        added_uris = [folder["uri"] for folder in params["event"]["added"]]
        with self._condition:
            uris = [
                uri
                for uri in self._folder_uris
                if uri not in removed_uris and uri not in added_uris
            ]
            self._folder_uris = uris + added_uris


def _is_too_large(text: str) -> bool:
    # No character takes more than four bytes, so most texts need not be encoded to find out.
    if len(text) * 4 <= MAX_DOCUMENT_BYTES:
        return False
    return len(text.encode("utf-8", "surrogatepass")) > MAX_DOCUMENT_BYTES
