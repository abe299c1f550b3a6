"""Decides which text is the newest and where an edit is written, as pure functions of three texts.

Texts are compared by fingerprint, a hash of the text with LF line ends. C is what the editor shows
(`buffer`), D what the disk holds (`disk`), L what the agent saw last (`Seen`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from oh_daemon.kernel.editor_ports import OpenDocument, TextEdit
from oh_daemon.protocol.items import FileChange, FileForm
from oh_daemon.workspace.files import FileText, sha256_of
from oh_daemon.workspace.line_diff import TextDiff
from oh_daemon.workspace.text_changes import as_editors_read

Source = Literal["buffer", "disk"]
Route = Literal["editor", "editorAndSave", "disk"]
Doubt = Literal["conflict", "rivals", "onlyBuffer", "staleBuffer", "unknownBuffer", "unsaved"]
"""Why editor, disk and what the agent saw differ."""

UNSAVED = "The editor shows unsaved changes, and so does this; commands still see the older file."
UNSAVED_EVERYWHERE = "The editor shows unsaved changes, and so do this and commands."
ONLY_BUFFER = "This text is in the editor only; commands do not see it until it is saved."
ONLY_BUFFER_EVERYWHERE = "This text is in the editor only, unsaved; commands see it as a file."
STALE_BUFFER = "The file changed on disk and the editor has not reloaded it; this is the disk's."
UNVERIFIED = "The editor reported that it applied this edit, but has not sent the new text yet."
UNKNOWN_BUFFER = (
    "The user's editor shows this file, but not its text to you: it may hold other, unsaved text."
    " This is the disk's."
)
UNREAD = "you have not read it yet"
MOVED_ON = "it changed since you read it"
UNSURE = "it may have changed since you read it"
REBASED = "The file changed since you read it; your edit still fitted. View it before the next one."
CONFLICT = (
    "Both the editor's text and the file on disk changed. This is the editor's; it is unsaved, and"
    " commands see the other one. Only the user knows which one counts."
)
CONFLICT_EVERYWHERE = (
    "Both the editor's text and the file on disk changed. This is the editor's, which commands"
    " also see; it is unsaved. Only the user knows which one counts."
)
RIVALS = (
    "Another editor of the user shows other unsaved text of this file. This is the text of the one"
    " from which you were asked. Only the user knows which one counts."
)
_NOTES: dict[Doubt, str] = {
    "conflict": CONFLICT,
    "rivals": RIVALS,
    "onlyBuffer": ONLY_BUFFER,
    "staleBuffer": STALE_BUFFER,
    "unknownBuffer": UNKNOWN_BUFFER,
    "unsaved": UNSAVED,
}
_NOTES_IN_OVERLAY: dict[Doubt, str] = {
    **_NOTES,
    "conflict": CONFLICT_EVERYWHERE,
    "onlyBuffer": ONLY_BUFFER_EVERYWHERE,
    "unsaved": UNSAVED_EVERYWHERE,
}


class Seen(Struct, frozen=True):
    """What the agent saw last, and what the editor and the disk held then, as fingerprints."""

    text: str
    buffer: str | None
    disk: str | None
    is_whole: bool = True
    """False when the text also holds changes by others that the agent was not shown."""
    read: bool = True
    """False when the agent changed lines of it without having read it."""
    rival: str | None = None
    """What other editors held; see `OpenDocument.rival`."""


class TextSource(Struct, frozen=True):
    """Where the text that counts is, and what its reader must know."""

    source: Source
    doubt: Doubt | None = None
    commands_see_buffers: bool = False
    """Whether commands run in an overlay that has the editor's texts."""

    @property
    def note(self) -> str | None:
        notes = _NOTES_IN_OVERLAY if self.commands_see_buffers else _NOTES
        return notes[self.doubt] if self.doubt else None


class EffectiveDocument(Struct, frozen=True):
    """What the editor and the disk hold, and which of the two counts."""

    path: Path
    document: OpenDocument | None
    file: FileText | None
    source: TextSource

    @property
    def text(self) -> str | None:
        file, document = self.file, self.document
        if document is None or self.source.source == "disk":
            return file.text if file is not None else None
        # An editor shows a lone CR as a line end; such a file is edited on the disk.
        if file is not None and file.has_mixed_line_ends and not self.is_unsaved:
            return file.text
        return document.text

    @property
    def note(self) -> str | None:
        """Return facts about the text that its reader must know, if there are any."""
        is_read = self.source.source == "disk" or self.document is None
        encoding = self.file.note if self.file is not None and is_read else None
        return "\n".join(filter(None, (self.source.note, encoding))) or None

    @property
    def is_unsaved(self) -> bool:
        """Whether the editor holds a text that counts and that the disk does not have."""
        return self.source.source == "buffer" and fingerprint(self.document) != fingerprint(
            self.file
        )


class PlannedEdit(Struct, frozen=True):
    """What an edit would do now; nothing has changed yet."""

    state: EffectiveDocument
    before: str | None
    """None means no file, also in `after`."""
    after: str | None
    edits: tuple[TextEdit, ...]
    diff: TextDiff
    """The lines that change."""
    route: Route
    note: str | None = None
    form: FileForm | None = None
    """The form of a file that is created."""
    saves_unsaved_text: bool = False
    """Whether what the user has typed is saved along with it."""


class TextWithNote(Struct, frozen=True):
    """A text as the agent sees it, with its own line ends."""

    text: str
    note: str | None


class EditDone(Struct, frozen=True):
    """What an edit did."""

    change: FileChange
    route: Literal["editor", "disk"]
    note: str | None = None


def fingerprint(text: str | OpenDocument | FileText | None) -> str | None:
    if text is None:
        return None
    if isinstance(text, FileText) and text.is_plain:
        return text.sha256
    return sha256_of(as_editors_read(text if isinstance(text, str) else text.text))


def as_the_editor_reads(file: FileText | None, document: OpenDocument | None) -> FileText | None:
    """Return the file; None if the editor may have read it in another encoding than we guessed."""
    is_guess = file is not None and file.is_guess and document is not None
    return None if is_guess and fingerprint(file) != fingerprint(document) else file


def rival_of(document: OpenDocument | None) -> str | None:
    return document.rival if document is not None else None


def arbitrate(
    buffer: str | None, disk: str | None, sighting: Seen | None, rival: str | None = None
) -> TextSource:
    """Decide which text counts, by content and never by time. None means that there is no text."""
    if buffer is None:
        return TextSource("disk")
    if rival not in {None, sighting.rival if sighting else None}:
        return TextSource("buffer", "rivals")
    if buffer == disk:
        return TextSource("buffer")
    if disk is None:
        return TextSource("buffer", "onlyBuffer")
    if sighting is None:
        return TextSource("buffer", "unsaved")
    was_clean = buffer == sighting.text == sighting.disk
    was_stale = buffer == sighting.buffer != sighting.text
    if was_clean or was_stale:
        return TextSource("disk", "staleBuffer")
    return TextSource("buffer", "unsaved" if disk == sighting.disk else "conflict")


def doubt_of(text: str, last: Seen | None, earlier: str | None) -> str | None:
    """Return why the agent, who saw `last`, may not know this text; None if it does.

    `earlier` is the hash of what it read in an earlier run, empty if that is unknown.
    """
    if last is None and earlier is not None:
        is_same = earlier in {fingerprint(text), sha256_of(text)}
        return None if is_same else MOVED_ON if earlier else UNSURE
    if last is None or not last.read:
        return UNREAD
    return None if last.is_whole and last.text == fingerprint(text) else MOVED_ON


def choose_route(
    source: TextSource,
    *,
    is_dirty: bool,
    mixed_line_ends: bool,
    can_apply: bool,
    can_save: bool,
    may_stay_unsaved: bool = False,
) -> Route | None:
    """Choose the single writer for an edit of an open document; None when no writer is safe.

    Where commands see what the editor shows, an edit `may_stay_unsaved`.
    """
    if source.source == "disk":
        return "disk"
    if is_dirty:
        return "editor" if can_apply else None
    # Editors unify mixed line ends when they open a file, so their save would change every line.
    if not can_apply or mixed_line_ends:
        return "disk"
    return "editorAndSave" if can_save else "editor" if may_stay_unsaved else "disk"
