"""The notes of the memory: Markdown files with dated headings, which the user may edit at any time.

    ## 2026-11-28 (conversation 4f1c)

    Deploy with `make ship`.

A note is appended under a lock of its file, so none is lost when several daemons write.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from oh_daemon.protocol.errors import DaemonError
from oh_daemon.system.private_files import (
    disk_error,
    open_private,
    private_folder,
    read_end,
    write_all,
)

MAX_FILES = 100
MAX_FILE_BYTES = 256 << 10
MAX_PROMPT_CHARS = 12 << 10
MAX_FOUND_CHARS = 24 << 10
_MAX_SHOWN = 5_000
"""Longer notes, which a user wrote, are shown in part, so that one leaves room for others."""
_HEADING = re.compile(r"^(?=## )", re.MULTILINE)
_DATE = re.compile(r"## (\d{4}-\d\d-\d\d)")
_INTRO = """# Memory
Notes of earlier conversations and of the user, newest first; they may be out of date."""


class Note(Struct, frozen=True):
    """The text under one heading; `file` says whose note it is and where."""

    file: str
    text: str

    @property
    def date(self) -> str:
        """The heading's date; a note without one, written by hand, sorts as the newest."""
        match = _DATE.match(self.text)
        return match[1] if match else "~"


class Notes(Struct, frozen=True):
    """The notes in the memory's folders, given by scope. Safe from any thread."""

    folders: Mapping[str, Path]

    def read(self) -> list[Note]:
        """Return all notes, by scope and file; a file that cannot be read is left out."""
        notes: list[Note] = []
        for scope, folder in self.folders.items():
            for path in islice(sorted(folder.glob("*.md")), MAX_FILES):
                with suppress(OSError, DaemonError):
                    # The newest notes are at the end.
                    text = read_end(path, MAX_FILE_BYTES).decode("utf-8", "replace")
                    notes += parse_notes(f"{scope}/{path.name}", text)
        return notes

    def add(self, scope: str, topic: str, entry: str) -> Path:
        """Append an entry to a file and make it durable. Raises `ReadOnlyError`, `StorageError`."""
        folder = self.folders[scope]
        path = folder / f"{topic}.md"
        try:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            private_folder(folder)
            self._append(path, entry)
        except OSError as exc:
            raise disk_error(path, exc) from exc
        return path

    def _append(self, path: Path, entry: str) -> None:
        while True:
            fd = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _is_still(path, fd):
                    continue  # An editor has replaced the file by a new one.
                size = os.fstat(fd).st_size
                ending = os.pread(fd, 1, size - 1) if size else b""
                gap = b"" if not size else b"\n" if ending == b"\n" else b"\n\n"
                write_all(fd, gap + entry.encode("utf-8", "replace"))
                os.fsync(fd)
            finally:
                os.close(fd)
            return


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def parse_notes(file: str, text: str) -> list[Note]:
    parts = (part.strip() for part in _HEADING.split(text))
    return [Note(file, part) for part in parts if part]


def render_note(text: str, conversation_id: str, date: str) -> str:
    """Render a new entry; headings in the text are lowered, so that it stays a single note."""
    body = re.sub(r"^(#{1,2}) ", r"###\1 ", text.strip(), flags=re.MULTILINE)
    return f"## {date} (conversation {conversation_id})\n\n{body}\n"


def memory_section(notes: Sequence[Note]) -> str:
    """Return the section of the system prompt: as many notes as there is room for, or nothing."""
    if not notes:
        return ""
    parts = _within(map(_part, _newest_first(notes)), MAX_PROMPT_CHARS)
    rows = [_INTRO, *map(_render, parts)]
    if len(parts) < len(notes):
        files = ", ".join(dict.fromkeys(note.file for note in notes))
        rows.append(f"[{len(notes) - len(parts)} more notes in {files}]")
    return "\n".join(rows)


def search_notes(notes: Sequence[Note], query: str) -> str:
    """Render the notes that contain the most words of the query, newest first among equals."""
    words = set(query.casefold().split())
    ranked_notes = [
        (-sum(word in note.text.casefold() for word in words), note)
        for note in _newest_first(notes)
    ]
    matches = [note for rank, note in sorted(ranked_notes, key=lambda each: each[0]) if rank < 0]
    if not matches:
        return f"None of {len(notes)} notes has a word of {query!r}."
    parts = _within((_part(note, words) for note in matches), MAX_FOUND_CHARS)
    remainder = f"\n[{len(matches) - len(parts)} more fit]" if len(parts) < len(matches) else ""
    return "\n".join(map(_render, parts)) + remainder


def _part(note: Note, words: Iterable[str] = ()) -> Note:
    """Return the note, or of a long one the part from shortly before the first of the words."""
    n_chars, folded_text = len(note.text), note.text.casefold()
    if n_chars <= _MAX_SHOWN:
        return note
    first = min((folded_text.find(word) for word in words if word in folded_text), default=0)
    start = max(0, min(first - _MAX_SHOWN // 4, n_chars - _MAX_SHOWN))
    end = start + _MAX_SHOWN
    range_note = f"[characters {start + 1:,} to {end:,} of {n_chars:,}]"
    return Note(note.file, f"{range_note}\n{note.text[start:end]}")


def _newest_first(notes: Iterable[Note]) -> list[Note]:
    """Sort by date; of one day, the later note in the file comes first."""
    newest = list(notes)[::-1]
    newest.sort(key=lambda note: note.date, reverse=True)
    return newest


def _within(notes: Iterable[Note], max_chars: int) -> list[Note]:
    fitting: list[Note] = []
    for note in notes:
        max_chars -= len(note.text)
        if max_chars >= 0:
            fitting.append(note)
    return fitting


def _render(note: Note) -> str:
    return f"<note file={note.file!r}>\n{note.text}\n</note>"
