"""The overlay of a conversation and its sub-agents, and the state of the disk at its last command.

`PendingChanges` of each of them reads and changes this record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.terminal.shell import Shells


class CommandStart(Struct):
    """The state in which the last command began, whichever agent ran it."""

    at_ns: int = 0
    applied_ns: int = 0
    """Time at which the changes of the command before it were on the disk."""
    handed_in: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    """Unsaved texts, by real path."""
    open_texts: Mapping[Path, str] = field(default_factory=dict[Path, str])
    shown_over: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    """Earlier contents of texts that were put in since: a program may have read either one."""
    unfinished: dict[Path, str] = field(default_factory=dict[Path, str])
    """Hashes of planned files that stay in the overlay, since a process still writes to them."""


class SharedOverlay(Struct):
    """One overlay and the shells in it."""

    sandbox: OverlaySandbox
    shells: list[Shells] = field(default_factory=list[Shells])
    start: CommandStart = field(default_factory=CommandStart)
    changing: threading.RLock = field(default_factory=threading.RLock)
    """Held while texts are put in, or changes are taken out."""

    @property
    def is_busy(self) -> bool:
        """Whether a command runs in front in any of the shells."""
        return any(shells.is_busy for shells in self.shells)

    @property
    def is_watched(self) -> bool:
        """Whether a command runs, which may watch files."""
        return any(shells.is_running for shells in self.shells)
