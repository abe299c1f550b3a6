"""A command in a shell: the state kept while it runs, and what one tool call sees of it."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from oh_daemon.workspace.output import Capture, CleanText, Output

State = Literal["done", "running", "waitingForInput"]
OnOutput = Callable[[str], None]
INTERRUPTS = (signal.SIGINT, 0, 0, 0, signal.SIGTERM, 0, 0, 0, signal.SIGKILL, 0, 0, 0)
"""Signals for the foreground program, in turn; 0 sends none. bash gets SIGUSR2 with each of them,
since it may miss one while it forks."""


def ignore(_text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ShellPlace:
    """Where the files of shells lie, in folders that exist."""

    given: Path
    """What they are given, and what is kept of their output; a shell need not write here."""
    kept: Path
    """What one shell leaves for the next. Only shells write and read here."""
    words: Sequence[str] = ()
    """The words before a shell's own: a program that holds it."""

    def of(self, name: str) -> ShellPlace:
        """Return the place of one shell."""
        return ShellPlace(self.given / name, self.kept / f".{name}", self.words)


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What one call saw of a command."""

    state: State
    output: Output
    cwd: Path
    duration_s: float
    """Seconds since the command began."""
    exit_code: int | None = None
    """Negative when a signal ended the shell itself."""
    note: str = ""
    """What happened to the shell, for the model."""
    late: str = ""
    """What background jobs wrote after the end of the previous command."""


@dataclass(slots=True, eq=False)
class ShellCommand:
    """A command that runs, or that ended and is not yet reported. Guarded by its shell's lock."""

    text: str
    capture: Capture
    is_background: bool
    note: str
    late: str
    mark: bytes = field(default_factory=lambda: secrets.token_hex(16).encode())
    is_marked: bool = False
    status: int | None = None
    """What bash reported; it counts once the mark shows that all output before it was read."""
    cleaner: CleanText = field(default_factory=CleanText)
    held: bytes = b""
    """Output that may be the beginning of the mark."""
    started: float = field(default_factory=time.monotonic)
    active: float = field(default_factory=time.monotonic)
    """When the command last wrote something or was last typed into."""
    exit_code: int | None = None
    """Set once, when the command has ended."""
    is_let_go: bool = False
    """Whether somebody waited for it, but not to its end; it is like a job then."""

    @property
    def is_job(self) -> bool:
        return self.is_background or self.is_let_go

    def let_go(self) -> Self:
        """Note that nobody waits for it any more."""
        self.is_let_go = True
        return self

    def split(self, data: bytes) -> tuple[str, bytes | None]:
        """Return the command's clean output, and the bytes after its mark, None before the mark."""
        mark = b"\x1e%b\x1e" % self.mark
        before, found, after = (self.held + data).partition(mark)
        start = before.rfind(b"\x1e", -len(mark))
        self.held = b""
        if not found and start >= 0 and mark.startswith(before[start:]):
            before, self.held = before[:start], before[start:]
        return self.cleaner.feed(before), after if found else None
