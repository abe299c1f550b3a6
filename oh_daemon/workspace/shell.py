"""The named shells of a conversation: found by name, started when first used, replaced when dead.

Leaves what one shell does to `bash`. Ids are the model's; there are at most 16.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from itertools import count
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
        shell = self._existing(terminal_id)
        return shell.wait(timeout_s, cancel, on_output, needs_output=needs_output)

    def type(self, terminal_id: str, text: str) -> None:
        """Press a key of `KEYS`, or type `text` and Enter, in the program that runs there."""
        data = KEYS.get(text) or text.removesuffix("\n").encode() + b"\n"
        self._existing(terminal_id).type(data)

    def cwd(self, terminal_id: str) -> Path:
        """Where the next command starts; a new terminal starts where `main` is."""
        shell = self._shells.get(terminal_id) or self._shells.get("main")
        return shell.cwd if shell else self._folder

    def free_name(self) -> str:
        """A terminal that does not exist yet, for a job in the background."""
        return next(name for n in count(1) if (name := f"job-{n}") not in self._shells)

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

    def _existing(self, name: str) -> Bash:
        if name not in self._shells:
            raise ToolError(f"there is no terminal {name!r}; run a command in it first")
        return self._shells[name]

    def _shell(self, name: str) -> tuple[Bash, str]:
        """The living shell of that name, and what the model must know about it."""
        old = self._shells.get(name)
        if old and not old.is_dead:
            return old, ""
        if not old and len(self._shells) >= MAX_SHELLS:
            self._end_idle()
        with refusals("bash"):
            if self._scratch is None:
                self._scratch = Path(tempfile.mkdtemp(prefix="oh-shells-"))
            cwd = self.cwd(name)
            cwd = cwd if cwd.is_dir() else self._folder
            self._shells[name] = Bash(self._spawner, self._scratch / name, cwd, self._env)
        note = "The shell had ended; this is a new one in the same folder." if old else ""
        return self._shells[name], note

    def _end_idle(self) -> None:
        idle = (name for name, shell in self._shells.items() if name != "main" and shell.is_idle)
        name = next(idle, None)
        if name is None:
            busy = ", ".join(self._shells)
            raise ToolError(
                f"{MAX_SHELLS} terminals are open, which is the limit; stop one: {busy}"
            )
        self._shells.pop(name).hang_up()
