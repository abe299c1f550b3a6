"""The files of a project that are for agents: how to work in it, as AGENTS.md, and named agents.

Files at the top of the open folders go into the system prompt. A file in a subfolder comes with the
first result about something in that subfolder. The agent is given each file once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.subagents.agents import AgentSource, NamedAgent, parse_agent
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.prompt import ContextFile, cap_text
from oh_daemon.kernel.state import State
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import Location
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import read_plain
from oh_daemon.workspace.paths import real_paths

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".openhands/microagents/repo.md")


class ContextFiles(Feature):
    """Thread-safe. Reads each file as the editor shows it, unsaved text included."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def restore(self, state: State) -> None:
        """Mark the files that the agent was given; it is given all others again."""
        names = {*state.agent.get("contextFiles", ())}
        for item in state.items:
            names.update((item.get("meta") or {}).get("contextFiles", ()))
        with self._lock:
            self._names = names

    def of_roots(self) -> tuple[ContextFile, ...]:
        """Return the new files of the open folders, by folder, then by how common the name is."""
        return self._notify(root / name for root in self._folders.roots for name in NAMES)

    def texts_for(
        self, locations: Sequence[Location], _cancel: CancelToken
    ) -> tuple[ContextFile, ...]:
        """Return the new files of every folder from the open ones down to these places."""
        open_texts = self._documents.open_texts()
        # Only what may be there is read: a read opens every folder from the root down.
        files = {
            folder / name: None
            for path in real_paths(locations)
            for folder, descriptor in self._folders.down_to(path)
            for name in NAMES
            if folder / name in open_texts or _exists(name, descriptor)
        }
        return self._notify(files)

    def _notify(self, paths: Iterable[Path]) -> tuple[ContextFile, ...]:
        files: list[ContextFile] = []
        with self._lock:
            for path in paths:
                name = self._folders.name(path)
                text = None if name in self._names else self._read(path)
                if text is None:
                    continue
                self._names.add(name)
                # Many projects keep the same text under several names.
                if text.strip() and all(text != other_file.text for other_file in files):
                    files.append(ContextFile(name, text))
        return tuple(files)

    def _read(self, path: Path) -> str | None:
        try:
            real = self._folders.resolve(str(path), writing=False)
            text = self._documents.read(real).text
        except ToolError:
            return None
        return cap_text(text)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


logger = logging.getLogger(__name__)

_PLACES = (".agents/agents", ".openhands/agents")
_MAX_BYTES = 64 << 10
_MAX_FILES = 100


def find_agents(trusted_folders: Iterable[Path], home: Path | None) -> Iterator[NamedAgent]:
    """Yield the agents of these folders, then the user's own.

    In the folders, links that lead outside are ignored.
    """
    for folder in trusted_folders:
        yield from _agents_in(folder, "project")
    if home is not None:
        yield from _agents_in(home, "user")


def _agents_in(folder: Path, source: AgentSource) -> Iterator[NamedAgent]:
    for place in _PLACES:
        for path in sorted((folder / place).glob("*.md"))[:_MAX_FILES]:
            try:
                inside = source == "user" or path.resolve().is_relative_to(folder.resolve())
                data = read_plain(path, _MAX_BYTES) if inside else b""
            except OSError as exc:
                logger.warning("no agent from %s: %s", path, exc)
                continue
            agent = parse_agent(data.decode("utf-8", "replace"), path.stem, source, str(path))
            if agent is not None:
                yield agent
            else:
                logger.warning("%s defines no agent: it needs a description and a prompt", path)
