"""What the core needs from the user's editor: its open documents and its language servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.base import Position
from oh_daemon.protocol.language_servers import Diagnostic


class OpenDocument(Struct, frozen=True):
    """A document as the editor shows it: `text` exactly as synced, without a BOM."""

    path: Path
    version: int
    text: str
    rival: str | None = None
    """A hash of the unsaved texts that other clients show of the file, if any differs from this."""


class TextEdit(Struct, frozen=True):
    """Replace `start:end` (offsets in code points of one document's text) with `text`."""

    start: int
    end: int
    text: str


class EditOutcome(Struct, frozen=True):
    """What the editor says it did. Believe the document's hash, not `is_applied`."""

    is_applied: bool
    is_saved: bool = False
    failure: str | None = None


MAX_LABEL_CHARS = 40
"""Of an edit's label: Neovim prints it, and a longer one makes it ask for Enter."""


class Editor(Protocol):
    """The client's open documents; absent in headless runs. Calls block: not for the main loop."""

    @property
    def can_apply(self) -> bool: ...

    @property
    def can_save(self) -> bool:
        """Whether an edit of a saved document can be saved along with it."""
        ...

    @property
    def saves_when_asked(self) -> bool:
        """Whether `save` works, which saves what the user has typed too."""
        ...

    @property
    def saves_with_edits(self) -> bool:
        """Whether each edit saves what the user has typed too: the client knows no other way."""
        ...

    def document(self, path: Path) -> OpenDocument | None:
        """Return the newest text of an open document, or None when it is not open.

        It is open also when the client opened it through a link.
        """
        ...

    def documents(self) -> tuple[OpenDocument, ...]: ...

    def is_unknown(self, path: Path) -> bool:
        """Return whether the file is open with a text that `document` could not find out."""
        ...

    def encoding(self, path: Path) -> str | None:
        """Return the editor's setting for the encoding of a file, as in "windows1251". Blocks."""
        ...

    def apply_edit(
        self,
        document: OpenDocument,
        edits: Sequence[TextEdit],
        *,
        label: str,
        save: bool,
        cancel: CancelToken,
    ) -> EditOutcome:
        """Ask the client to apply `edits` to that version as one undo step (deadline 10 s)."""
        ...

    def create(self, path: Path, text: str, *, cancel: CancelToken) -> bool:
        """Let the client create a file; return whether it says that it did. Only some can."""
        ...

    def wait_for_text(
        self, path: Path, sha256: str, *, timeout_s: float, cancel: CancelToken
    ) -> OpenDocument | None:
        """Wait until the open document's text has this hash; return None if it never does."""
        ...

    def assume_applied(self, document: OpenDocument, text: str) -> bool:
        """Count `text` as shown: the client applied an edit of `document` and sent no change.

        The next change of the client replaces it. False if the client can be asked for its text,
        or has sent another one.
        """
        ...

    def note_saves(self) -> Callable[[], Mapping[Path, str]]:
        """Record saves from now on; the function returned ends that and gives them by real path."""
        ...

    def listen(self, on_change: Callable[[Path], None]) -> Callable[[], None]:
        """Tell of each text that changes, is saved or closed, by real path; the result ends that.

        `on_change` must not block.
        """
        ...

    def save(self, paths: Sequence[Path], *, cancel: CancelToken) -> tuple[Path, ...]:
        """Ask the client to save; return the paths that it saved (deadline 10 s)."""
        ...


ANSWER_DEADLINE_S = 5.0
"""How long a client may take to answer for its language servers."""


class Offsets(Protocol):
    """Converts between offsets in one text and positions as the client counts them."""

    def position(self, offset: int) -> Json: ...

    def offset(self, position: Position) -> int:
        """Return the offset in code points; beyond the end of a line or the text, that end."""
        ...


class ServerReport(Struct, frozen=True):
    """Diagnostics of the language servers, by URI."""

    items: Sequence[tuple[str, Sequence[Diagnostic]]]
    loading: tuple[str, ...] = ()
    """Names of servers with work in progress, which may not know the whole project yet."""


class LanguageServers(Protocol):
    """The language servers of the user's editor, which see the texts that it shows. Calls block."""

    @property
    def can_report(self) -> bool:
        """Whether `diagnostics` works."""
        ...

    @property
    def can_look_up(self) -> bool:
        """Whether `look_up` works."""
        ...

    def diagnostics(
        self,
        paths: Sequence[Path] | None,
        *,
        min_severity: int,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> ServerReport:
        """Return what the servers report about these files, or all. Raises `ToolError`."""
        ...

    def look_up(
        self,
        method: str,
        params: Json,
        *,
        about: Path | None = None,
        timeout_s: float = ANSWER_DEADLINE_S,
        cancel: CancelToken,
    ) -> Any:
        """Forward an LSP request; `about` becomes its `textDocument`. The result is not checked.

        Raises `ToolError` when there is no result.
        """
        ...

    def offsets(self, text: str) -> Offsets: ...
