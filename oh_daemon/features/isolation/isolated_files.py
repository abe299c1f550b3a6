"""What an isolated conversation keeps apart from the disk, whatever it is kept in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct, field

from oh_daemon.features.pending_changes.git_plan import GitPlan
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.items import FileChange
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import sha256_of

Value = TypeVar("Value")

CHANGES_APART = "it changes only what the isolated conversation keeps apart"


class PendingFiles(Struct, frozen=True):
    """What differs from what the conversation began with, by real path."""

    changes: Mapping[Path, FileChange] = field(default_factory=dict[Path, FileChange])
    left_out: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """What can only be discarded, with the reason."""
    git: GitPlan = field(default_factory=GitPlan)
    """Commits and the like, which land once nothing else waits."""
    git_names: Mapping[Path, Sequence[Path]] = field(default_factory=dict[Path, Sequence[Path]])
    """All of git's own files that differ, below each open folder."""


class IsolatedFiles(Protocol):
    """Safe from any thread. Blocks; raises `OSError` and `ToolError`."""

    @property
    def notice(self) -> tuple[str, str, str] | None:
        """What the user is told of a new conversation: title, description; a note for the model."""
        ...

    def open_root(self, folder: Path, documents: Documents) -> int:
        """Open one of the open folders as the conversation has it."""
        ...

    def for_programs(self, path: Path) -> Path:
        """Return where the conversation's programs find what has this real path."""
        ...

    def begin(self, documents: Documents) -> None:
        """Bring it up to date, before a command or an edit."""
        ...

    def end(self, documents: Documents) -> None:
        """Note what a command or an edit has changed."""
        ...

    def pending_changes(self, documents: Documents) -> PendingFiles: ...

    def settle(self, paths: Sequence[Path], documents: Documents) -> None:
        """Let the conversation have the disk's content of these again."""
        ...

    def take_out(self, names: Mapping[Path, Sequence[Path]]) -> None:
        """Let the conversation have git's own files, below open folders, as the disk has them."""
        ...

    def rebase(self, path: Path, text: str) -> None:
        """From now on this text, with LF line ends, counts as what a change began with."""
        ...

    def remove(self) -> None:
        """Remove all of it, once nothing runs there any more."""
        ...


class IsolationState:
    """What is noted of a conversation in a folder of ours: contents by hash, and one JSON file."""

    def __init__(self, place: Path, name: str) -> None:
        self._file = place / name
        self._contents = place / "began"

    def put(self, data: bytes) -> str:
        """Keep a content and return its hash."""
        sha256 = sha256_of(data)
        self._contents.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self._contents / sha256).exists():
            _replace_file(self._contents / sha256, data)
        return sha256

    def content(self, sha256: str | None) -> bytes | None:
        return (self._contents / sha256).read_bytes() if sha256 else None

    def load(self, parse: Callable[[Json], Value]) -> Value | None:
        """Return what an earlier run noted, if there was one."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            return parse(json.loads(self._file.read_bytes()))
        return None

    def store(self, values: Json) -> None:
        if self._file.parent.is_dir():
            _replace_file(self._file, json.dumps(values).encode())


def _replace_file(file: Path, data: bytes) -> None:
    """Give a file of ours this content; a crash leaves the old one or the new."""
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(data)
    new.replace(file)
