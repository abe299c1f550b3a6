"""The client's buffers as the core sees them: through `fs/read_text_file` and `fs/write_text_file`.

ACP has no list of what is open, no versions and no ranges, and to write is to save. So a file
counts as open if the client reads another text than the disk has, or takes our writes at all; the
text is compared right before a write, and what came of it by whoever wrote.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.frontends.acp.client_facts import AcpClientFacts
from oh_daemon.jsonrpc.client import ClientAnswer
from oh_daemon.jsonrpc.reading import field_in
from oh_daemon.kernel.editor_ports import EditOutcome, OpenDocument, TextEdit
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.paths import Folders
from oh_daemon.workspace.text_changes import apply_edits, as_editors_read

READ_S, WRITE_S = 5.0, 10.0
_MUTED_S = 30.0
"""How long a client that did not answer is not asked again."""
_FRESH_S = 0.3
"""How long an answer holds: one look at a file asks up to three times."""
_LOOK_AGAIN_S = 0.5
_MAX_BYTES = 5 << 20
_FAILURES = {"deadline": "timeout", "gone": "gone"}


class ClientQuirks(Struct, frozen=True):
    """What a client does with files."""

    reads_buffers: bool = True
    takes_writes: bool = False
    """Whether a write reaches the buffer and leaves no text of the user's behind."""


_KNOWN = {
    # It reads the disk but writes into the buffer: what the user has typed there would be lost.
    "codecompanion": ClientQuirks(reads_buffers=False),
    "zed": ClientQuirks(takes_writes=True),
    "jetbrains": ClientQuirks(takes_writes=True),
}
"""By the beginning of the client's name in lower case; only for these is it known."""


def quirks_of(facts: AcpClientFacts) -> ClientQuirks:
    """Return the habits of this client; of one that nobody knows, only reads are used."""
    name = facts.name.casefold()
    matches = (quirks for begin, quirks in _KNOWN.items() if name.startswith(begin))
    quirks = next(matches, ClientQuirks())
    reads = quirks.reads_buffers and facts.offers("fs", "readTextFile")
    writes = reads and quirks.takes_writes and facts.offers("fs", "writeTextFile")
    return ClientQuirks(reads, writes)


class ClientFiles:
    """Implements `kernel.editor_ports.Editor` for one session; its calls block."""

    def __init__(
        self,
        request: Callable[..., ClientAnswer],
        session_id: str,
        folders: Sequence[Path],
        is_heard: Callable[[], bool],
        quirks: ClientQuirks,
    ) -> None:
        """`request` is a `Client`'s. Clients answer only while a prompt is open: `is_heard`."""
        self._request = request
        self._session_id = session_id
        self._folders = Folders(tuple(folders))
        self._is_heard = is_heard
        self._habits = quirks
        self._lock = threading.Lock()
        self._looks: dict[Path, tuple[float, OpenDocument | None]] = {}
        """When a file was looked at, and what it was."""
        self._last_clean: dict[Path, str] = {}
        """The hash of what a file was when the client last showed it as it was on the disk."""
        self._unsaved_paths: set[Path] = set()
        self._muted_until = 0.0
        self._n_versions = 0
        self.can_apply = self.can_save = quirks.takes_writes
        self.saves_with_edits = quirks.takes_writes
        self.saves_when_asked = False

    def document(self, path: Path) -> OpenDocument | None:
        with self._lock:
            looked_at, earlier_document = self._looks.get(path, (0.0, None))
        if time.monotonic() < looked_at + _FRESH_S:
            return earlier_document
        return self._read_document(path, CancelToken())

    def documents(self) -> tuple[OpenDocument, ...]:
        """Return those known to have unsaved text: the client lists nothing."""
        with self._lock:
            paths = tuple(self._unsaved_paths)
        return tuple(document for path in paths if (document := self.document(path)) is not None)

    def is_unknown(self, path: Path) -> bool:
        """Return whether the file is too large to be asked for: it may be open."""
        try:
            return self._folders.contains(path) and path.stat().st_size > _MAX_BYTES
        except OSError:
            return False

    def apply_edit(
        self,
        document: OpenDocument,
        edits: Sequence[TextEdit],
        *,
        label: str,  # noqa: ARG002 - as in the port; ACP has none.
        save: bool,  # noqa: ARG002 - as above: to write is to save.
        cancel: CancelToken,
    ) -> EditOutcome:
        """Write the whole text, if the client still shows that of `document`."""
        if not self.can_apply:
            return EditOutcome(is_applied=False, failure="unsupported")
        now = self._read_document(document.path, cancel)
        if now is None or now.text != document.text:
            return EditOutcome(is_applied=False, failure="missing" if now is None else "stale")
        return self._write(document.path, apply_edits(document.text, edits), cancel)

    def encoding(self, path: Path) -> str | None:  # noqa: ARG002 - as in the port; ACP has none.
        return None

    def create(self, path: Path, text: str, *, cancel: CancelToken) -> bool:
        may = self.can_apply and self._may_ask() and path.parent.is_dir()
        return may and self._write(path, text, cancel).is_applied

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        """Look, and once more a little later: the client does not tell of changes."""
        for wait_s in (0.0, min(_LOOK_AGAIN_S, timeout_s)):
            if wait_s:
                cancel.wait(wait_s)
            document = self._read_document(path, cancel)
            if document is not None and sha256_of(document.text) == sha256:
                return document
        return None

    def assume_applied(self, document: OpenDocument, text: str) -> bool:  # noqa: ARG002 - it is asked.
        return False

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:  # noqa: ARG002 - as in the port.
        return ()

    def note_saves(self) -> Callable[[], Mapping[Path, str]]:
        return dict[Path, str]

    def listen(self, on_change: Callable[[Path], None]) -> Callable[[], None]:  # noqa: ARG002 - nothing is told.
        return lambda: None

    def _may_ask(self) -> bool:
        return self._is_heard() and time.monotonic() >= self._muted_until

    def _read_document(self, path: Path, cancel: CancelToken) -> OpenDocument | None:
        disk = _text_of(path) if self._may_ask() and self._folders.contains(path) else None
        text = None if disk is None else self._read(path, disk, cancel)
        if text is not None and self._is_behind(path, text, disk or ""):
            text = None
        is_unsaved = text is not None and disk is not None and not _is_alike(text, disk)
        if text is None or not (is_unsaved or self._goes_through_client(disk or "")):
            document = None
        else:
            document = self._next_version(path, text)
        with self._lock:
            self._looks[path] = (time.monotonic(), document)
            (self._unsaved_paths.add if is_unsaved else self._unsaved_paths.discard)(path)
        return document

    def _is_behind(self, path: Path, text: str, disk: str) -> bool:
        """Return whether the client shows what was on the disk before: some reload nothing."""
        sha256 = sha256_of(as_editors_read(text))
        with self._lock:
            if _is_alike(text, disk):
                self._last_clean[path] = sha256
            return not _is_alike(text, disk) and self._last_clean.get(path) == sha256

    def _goes_through_client(self, disk: str) -> bool:
        """Whether a saved file is edited there; clients change line ends and marks as they like."""
        return self.can_apply and "\r" not in disk and not disk.startswith("\ufeff")

    def _next_version(self, path: Path, text: str) -> OpenDocument:
        with self._lock:
            last = self._looks.get(path, (0.0, None))[1]
            if last is not None and last.text == text:
                return last
            self._n_versions += 1
            return OpenDocument(path, self._n_versions, text)

    def _read(self, path: Path, disk: str, cancel: CancelToken) -> str | None:
        answer = self._ask("fs/read_text_file", {"path": str(path)}, READ_S, cancel)
        text = field_in(answer.result, "content")
        if not isinstance(text, str) or (not text and disk):
            # Some answer with no text for what they cannot read.
            return None
        text = text.removeprefix("\ufeff")
        # Some join the lines of a buffer and leave the last line end out.
        return f"{text}\n" if disk.endswith("\n") and not text.endswith("\n") else text

    def _write(self, path: Path, text: str, cancel: CancelToken) -> EditOutcome:
        params = {"path": str(path), "content": text}
        answer = self._ask("fs/write_text_file", params, WRITE_S, cancel)
        with self._lock:
            self._looks.pop(path, None)
        # One client answers a failure with a text as the result.
        if answer.outcome == "answered" and not isinstance(answer.result, str):
            return EditOutcome(is_applied=True, is_saved=True)
        return EditOutcome(is_applied=False, failure=_FAILURES.get(answer.outcome, "rejected"))

    def _ask(
        self, method: str, params: dict[str, Any], deadline_s: float, cancel: CancelToken
    ) -> ClientAnswer:
        params = {"sessionId": self._session_id, **params}
        answer = self._request(method, params, deadline_s=deadline_s, cancel=cancel)
        if answer.outcome == "deadline":
            self._muted_until = time.monotonic() + _MUTED_S
        return answer


def _text_of(path: Path) -> str | None:
    """Return the text on the disk; None for what is no file, too large, or no text."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        data = path.read_bytes()
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None


def _is_alike(text: str, disk: str) -> bool:
    return as_editors_read(text) == as_editors_read(disk.removeprefix("\ufeff"))
