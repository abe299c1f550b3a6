"""The named shells of a conversation: found by name, started when first used, replaced when dead.

What one shell does is left to `bash`. The model chooses the names; there are at most 16 shells.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from oh_daemon.contract.daemon_messages import TerminalInfo
from oh_daemon.contract.errors import ToolError
from oh_daemon.core.secrets import Masker
from oh_daemon.workspace.bash import Bash
from oh_daemon.workspace.output import Scrollback
from oh_daemon.workspace.shell_command import CommandOutcome
from oh_daemon.workspace.spawner import GRACE_S, Spawner, clean_env, refusals

MAX_SHELLS = 16
_REPLACED = "The shell had ended; this is a new one in the same folder."


class Shells:
    """The named shells of one conversation. Safe from any thread."""

    def __init__(
        self,
        spawner: Spawner,
        folder: Path,
        env: Mapping[str, str],
        masker: Masker | None = None,
    ) -> None:
        self._spawner = spawner
        self._folder = folder
        self._env = clean_env(env)
        self._lock = threading.Lock()
        self._scratch: Path | None = None
        self._shells: dict[str, Bash] = {}
        self._masker = masker or Masker()
        self._screens: dict[str, Scrollback] = {}

    def open(self, name: str = "main") -> Bash:
        """Return the living shell of that name, or start one."""
        with self._lock:
            old = self._shells.get(name)
            if old and not old.is_dead:
                return old
            if not old and len(self._shells) >= MAX_SHELLS:
                self._end_idle()
            self._shells[name] = self._started(name, _REPLACED if old else "")
            return self._shells[name]

    def existing(self, name: str) -> Bash:
        """Return the shell of that name, dead or alive. Raises `ToolError` when there is none."""
        if name not in self._shells:
            raise ToolError(f"there is no terminal {name!r}; run a command in it first")
        return self._shells[name]

    def take_ended(self, name: str) -> CommandOutcome | None:
        """Return the outcome of a command in that shell that ended unwatched, if there is one."""
        shell = self._shells.get(name)
        return shell.take_ended() if shell else None

    def listed(self) -> tuple[TerminalInfo, ...]:
        """Return what people see of each shell, oldest first."""
        return tuple(self._info(name, shell) for name, shell in list(self._shells.items()))

    def _info(self, name: str, shell: Bash) -> TerminalInfo:
        last = shell.last
        return TerminalInfo(
            terminal_id=name,
            command=self._masker.mask(last.text) if last else None,
            cwd=str(shell.cwd),
            running=shell.is_running,
            exit_code=last.exit_code if last else None,
            size_bytes=self._screens[name].size_bytes,
        )

    def screen(self, name: str) -> Scrollback:
        """Return what a terminal showed. Raises `ToolError` as `existing` does."""
        self.existing(name)
        return self._screens[name]

    def cwd(self, terminal_id: str) -> Path:
        """Return the folder of the next command; a new terminal starts in the folder of `main`."""
        shell = self._shells.get(terminal_id) or self._shells.get("main")
        return shell.cwd if shell else self._folder

    def free_name(self) -> str:
        """Return the name of a terminal that does not exist yet, for a background job."""
        return next(name for n in count(1) if (name := f"job-{n}") not in self._shells)

    def close(self) -> None:
        """End every shell and everything that runs in it."""
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

    def _started(self, name: str, note: str) -> Bash:
        with refusals("bash"):
            if self._scratch is None:
                self._scratch = Path(tempfile.mkdtemp(prefix=self._spawner.scratch.name))
            cwd = self.cwd(name)
            cwd = cwd if cwd.is_dir() else self._folder
            screen = self._screens.setdefault(name, Scrollback(self._masker))
            shell = Bash(self._spawner, self._scratch / name, cwd, self._env, screen)
            shell.tell(note)
            return shell

    def _end_idle(self) -> None:
        idle = (name for name, shell in self._shells.items() if name != "main" and shell.is_idle)
        name = next(idle, None)
        if name is None:
            busy = ", ".join(self._shells)
            raise ToolError(
                f"{MAX_SHELLS} terminals are open, which is the limit; stop one: {busy}"
            )
        self._shells.pop(name).hang_up()
        del self._screens[name]
