"""The chat files of one folder: `.openhands/chat/NAME.md`, ignored by git.

A repository may bring links of these names, so every step down to a file is opened as no link.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from oh_daemon.frontends.lsp.plain.chat_text import EMPTY, conversation_of
from oh_daemon.protocol.errors import InvalidParamsError, ToolError
from oh_daemon.workspace.files import Files
from oh_daemon.workspace.paths import Folders

_MODE = 0o600
"""Nobody else reads a conversation."""
_NAME = re.compile(r"[^\W_.][\w .+-]{0,99}")


class ChatFiles:
    """Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folders = Folders((folder,))
        self.home = folders.roots[0] / ".openhands" / "chat"
        # The log has what an answer is made of; there is no second place for it.
        self._files = Files(folders, persist=lambda _old: None)

    def is_chat(self, path: Path) -> bool:
        """Return whether this is the real path of a chat file."""
        return path.parent == self.home and path.suffix == ".md"

    def path_of(self, name: str) -> Path:
        """Return the path of a new or old chat. Raises `InvalidParamsError`."""
        if not _NAME.fullmatch(name):
            message = "must be letters, digits, spaces, `-`, `_`, `+` and `.`, at most 100"
            raise InvalidParamsError.at("name", message, "invalid_name")
        return self.home / f"{name.removesuffix('.md')}.md"

    def ensure(self, path: Path, text: str = EMPTY) -> None:
        """Make the file, unless it is there. Raises `ToolError`."""
        for each, content in ((self.home / ".gitignore", "*\n"), (path, text)):
            if self._files.read(each) is None:
                self._files.create(each, content.encode(), _MODE)

    def read(self, path: Path) -> str:
        """Return the text. Raises `ToolError`."""
        file = self._files.read(path)
        if file is None:
            raise ToolError(f"{str(path)!r} is gone")
        return file.text

    def write(self, path: Path, before: str, after: str) -> bool:
        """Replace the text; return False if it is no longer `before`. Raises `ToolError`."""
        file = self._files.read(path)
        if file is None or file.text != before:
            return False
        self._files.replace(path, file.encode(after), file.sha256)
        return True

    def all(self) -> list[Path]:
        """Return all chats, the one that changed last first."""
        try:
            with os.scandir(self.home) as entries:
                files = [
                    (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name)
                    for entry in entries
                    if entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)
                ]
        except OSError:
            return []
        return [self.home / name for _, name in sorted(files, reverse=True)]

    def of(self, conversation_id: str) -> Path | None:
        """Return the file of a conversation, None if it has none."""
        for path in self.all():
            with suppress(ToolError):
                if conversation_of(self.read(path)) == conversation_id:
                    return path
        return None
