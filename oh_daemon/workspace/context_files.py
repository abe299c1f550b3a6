"""The files by which a project tells agents how to work in it, such as AGENTS.md.

Those of the open folders belong to the system prompt. One of a folder further down comes with the
first result about something in that folder. Each is told once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.core.prompt import ContextFile, capped
from oh_daemon.workspace.documents import Documents

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".openhands/microagents/repo.md")


class ContextFiles:
    """Thread-safe. Reads as the editor shows it, unsaved text included."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._lock = threading.Lock()
        self._told: set[str] = set()

    def remember(self, names: Iterable[str]) -> None:
        """An earlier run told them."""
        with self._lock:
            self._told.update(names)

    def forget(self) -> None:
        """What was told is told again."""
        with self._lock:
            self._told.clear()

    def of_roots(self) -> tuple[ContextFile, ...]:
        """What the open folders have, sorted by folder and by how common the name is."""
        return self._tell(self._folders.roots)

    def on_the_way(self, paths: Iterable[Path]) -> tuple[ContextFile, ...]:
        """What the folders from the open ones down to these paths have and nobody told yet."""
        inside = [path for path in paths if self._folders.contains(path)]
        folders = {
            folder: None
            for path in inside
            for folder in reversed([path, *path.parents])
            if self._folders.contains(folder)
        }
        return self._tell(folders)

    def _tell(self, folders: Iterable[Path]) -> tuple[ContextFile, ...]:
        found: list[ContextFile] = []
        with self._lock:
            for path in (folder / name for folder in folders for name in NAMES):
                name = self._folders.name(path)
                text = None if name in self._told else self._read(path)
                if text is None:
                    continue
                self._told.add(name)
                # Many projects keep one text under several names.
                if text.strip() and all(text != other.text for other in found):
                    found.append(ContextFile(name, text))
        return tuple(found)

    def _read(self, path: Path) -> str | None:
        try:
            real = self._folders.resolve(str(path), writing=False)
            text = self._documents.read(real).text
        except ToolError:
            return None
        return capped(text)
