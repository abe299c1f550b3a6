"""PDFs in the messages of a request: sent as they are, or as their text, read once each."""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256

from oh_daemon.common.plain_text import ends
from oh_daemon.features.models.request_healing import has_document, text_part
from oh_daemon.kernel.ports import Json
from oh_daemon.workspace.pdf_text import NO_TEXT, read_pdf_text

_MAX_CHARS = 100_000
"""Limit of the text of one document in a request: some 25,000 tokens."""
_MAX_KEPT = 32


class DocumentTexts:
    """The texts of a model's documents. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, Json] = {}
        """By the digest of the document; the oldest first."""

    def written_out(self, messages: Sequence[Json]) -> Sequence[Json]:
        """Return the messages with a text in place of each document.

        Blocks for up to 60 s at the first request with a document.
        """
        if not any(map(has_document, messages)):
            return messages
        return [
            {**message, "content": [self._part(part) for part in message["content"]]}
            if has_document(message)
            else message
            for message in messages
        ]

    def _part(self, part: Json) -> Json:
        if part["type"] != "file":
            return part
        url: str = part["file"]["file_data"]
        key = sha256(url.encode()).hexdigest()
        with self._lock:
            if key in self._parts:
                return self._parts[key]
        text = read_pdf_text(b64decode(url.partition(",")[2])) or NO_TEXT
        name, excerpt = part["file"]["filename"], ends(text, _MAX_CHARS, "the text of a document")
        text_only = text_part(f"<document name={name!r}>\n{excerpt}\n</document>")
        with self._lock:
            self._parts[key] = text_only
            while len(self._parts) > _MAX_KEPT:
                del self._parts[next(iter(self._parts))]
        return text_only
