"""The named shells of a conversation: found by name, started when first used, replaced when dead.

Leaves what one shell does to `bash`. Ids are the model's; there are at most 16.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.workspace.bash import Bash, CommandOutcome, OnOutput, ignore_output
from oh_daemon.workspace.pty import KEYS
from oh_daemon.workspace.spawner import GRACE_S, Spawner, clean_env, refusals

MAX_SHELLS = 16


class Shells:
    """The named shells of one conversation. Safe from any thread."""

    def __init__(self, spawner: Spawner, folder: Path, env: Mapping[str, str]) -> None:
        self._spawner = spawner
        self._folder = folder
        self._env = clean_env(env)
        self._lock = threading.Lock()
        self._scratch: Path | None = None
        self._shells: dict[str, Bash] = {}

    def run(
        self,
        command: str,
        *,
        timeout_s: float,
        cancel: CancelToken,
        on_output: OnOutput = ignore_output,
        terminal_id: str = "main",
    ) -> CommandOutcome:
        """Run `command`; wait for its end, for input or for the time, which never kills it.

        Raises `ToolError` when the terminal is busy. A cancel ends the command.
        """
        self.begin(command, terminal_id, on_output=on_output)
        return self.wait(terminal_id, timeout_s=timeout_s, cancel=cancel, on_output=on_output)

    def begin(
        self,
        command: str,
        terminal_id: str,
        *,
        on_output: OnOutput = ignore_output,
        is_background: bool = False,
    ) -> None:
        """Start `command`; in the background it also survives a cancel of those who wait."""
        with self._lock:
            shell, note = self._shell(terminal_id)
        shell.begin(command, note, on_output, is_background=is_background)

    def wait(
        self,
        terminal_id: str,
        *,
        timeout_s: float,
        cancel: CancelToken,
        on_output: OnOutput = ignore_output,
        needs_output: bool = False,
    ) -> CommandOutcome:
        """Wait for the command there; the outcome has its output since the last call.

        With `needs_output`, a program counts as waiting for input only after it wrote something.
        """
        shell = self._shells.get(terminal_id)
        if shell is None:
            raise ToolError(f"there is no terminal {terminal_id!r}; run a command in it first")
        return shell.wait(timeout_s, cancel, on_output, needs_output=needs_output)

    def type(self, terminal_id: str, text: str) -> None:
        """Press a key of `KEYS`, or type `text` and Enter, in the program that runs there."""
        shell = self._shells.get(terminal_id)
        if shell is None:
            raise ToolError(f"there is no terminal {terminal_id!r}; run a command in it first")
        shell.type(KEYS.get(text) or text.removesuffix("\n").encode() + b"\n")

    def cwd(self, terminal_id: str) -> Path:
        """Where the next command starts; as far as known while one runs."""
        shell = self._shells.get(terminal_id)
        return shell.cwd if shell else self._folder

    def free_name(self) -> str:
        """A terminal that does not exist yet, for a job in the background."""
        return next(name for n in range(1, 99) if (name := f"job-{n}") not in self._shells)

    def close(self) -> None:
        """End every shell and all that runs in them."""
        with self._lock:
            shells, self._shells = list(self._shells.values()), {}
            scratch, self._scratch = self._scratch, None
        deadline = time.monotonic() + GRACE_S
        for shell in shells:
            shell.hang_up()
        for shell in shells:
            shell.kill(max(0.0, deadline - time.monotonic()))
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)

    def _shell(self, name: str) -> tuple[Bash, str]:
        """The living shell of that name, and what the model must know about it."""
        old = self._shells.get(name)
        if old and not old.is_dead:
            return old, ""
        if not old and len(self._shells) >= MAX_SHELLS:
            names = ", ".join(self._shells)
            raise ToolError(f"{MAX_SHELLS} terminals are open, that is the limit; use one: {names}")
        with refusals("bash"):
            if self._scratch is None:
                self._scratch = Path(tempfile.mkdtemp(prefix="oh-shells-"))
            cwd = old.cwd if old and old.cwd.is_dir() else self._folder
            number = str([*self._shells, name].index(name))
            shell = Bash(self._spawner, self._scratch / number, cwd, self._env)
        self._shells[name] = shell
        return shell, "The shell had ended; this is a new one in the same folder." if old else ""
