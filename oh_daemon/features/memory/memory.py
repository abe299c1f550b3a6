"""The skills and the long-term memory of one conversation.

Commands and servers of skills run only while every open folder is trusted, and the user sees them;
notes are read and written only then, too.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oh_daemon.features.memory import notes as memory
from oh_daemon.features.memory.files import Notes
from oh_daemon.features.memory.tool import MemoryTool
from oh_daemon.kernel.ports import Tool

if TYPE_CHECKING:
    from oh_daemon.conversations.services import Shared
_PROJECT = Path(".openhands") / "memory"


class Memory:
    """The notes of the first open folder's project, then those of the user.

    There are none when the setting is off, when there is no user, or when a folder is not trusted:
    anybody may have written its notes, or may have planted what the agent would note down.
    """

    def __init__(self, shared: Shared, folders: Sequence[Path]) -> None:
        self._shared = shared
        self._folders = folders
        project = {"project": folders[0] / _PROJECT} if folders else {}
        self._notes = Notes({**project, "user": shared.user_memory or Path(os.devnull)})
        scopes = tuple(self._notes.folders)
        self._tool = MemoryTool(scopes, self._search, self._write, self._is_allowed)

    def tools(self) -> list[Tool]:
        return [self._tool] if self._is_allowed() else []

    def sections(self, offered: Container[str]) -> list[str]:
        """The prompt's section about memory; none unless the tool is offered."""
        return [memory.memory_section(self._notes.read())] if memory.TOOL in offered else []

    def _is_allowed(self) -> bool:
        shared, folders = self._shared, self._folders
        is_on = shared.settings(folders[0] if folders else None).settings.memory
        has_user = shared.user_memory is not None
        return is_on and has_user and all(shared.trust.of(folder) == "full" for folder in folders)

    def _search(self, query: str) -> str:
        return memory.search_notes(self._notes.read(), query)

    def _write(self, scope: str, topic: str, text: str, conversation_id: str) -> str:
        """Store a note, masked like everything on disk, and return the path of its file."""
        masked, today = self._shared.masker.mask(text), self._shared.clock.now()[:10]
        return str(
            self._notes.add(scope, topic, memory.render_note(masked, conversation_id, today))
        )
