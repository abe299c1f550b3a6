"""What an isolated conversation keeps apart from the disk, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from oh_daemon.contract.items import FileChange
from oh_daemon.sandbox.git_plan import GitPlanned
from oh_daemon.workspace.documents import Documents

HELD = "it changes only what the isolated conversation keeps apart"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What differs from what the conversation began with, by real path."""

    changes: Mapping[Path, FileChange] = field(default_factory=dict[Path, FileChange])
    left_out: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """What can only be discarded, with the reason."""
    git: GitPlanned = field(default_factory=GitPlanned)
    """Commits and the like, which land once nothing else waits."""
    git_names: Mapping[Path, Sequence[Path]] = field(default_factory=dict[Path, Sequence[Path]])
    """All of git's own files that differ, below each open folder."""


class Keep(Protocol):
    """Safe from any thread. Blocks; raises `OSError` and `ToolError`."""

    @property
    def told(self) -> tuple[str, str, str] | None:
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

    def waiting(self, documents: Documents) -> Waiting: ...

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


def replace_file(file: Path, data: bytes) -> None:
    """Give a file of ours this content; a crash leaves the old one or the new."""
    new = file.with_name(f"{file.name}.new")
    new.write_bytes(data)
    new.replace(file)
