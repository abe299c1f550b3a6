"""A folder of a Python program: where its agents work, what their commands start with and get."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.lent_secrets import SecretSource
from oh_daemon.fronts.agent import BUILTIN, BuiltinName
from oh_daemon.workspace.shell import Shells
from oh_daemon.workspace.spawner import Spawner

_FOREVER_S = 10.0**9


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command of `Workspace.run_command` gave."""

    output: str
    """Both streams as a terminal shows them, the middle cut out when it is long."""
    exit_code: int | None
    """None while the command goes on because the time was up."""


class Workspace:
    """A folder for agents to work in, and for the program to run commands in."""

    def __init__(
        self,
        path: str | Path,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, SecretSource] | None = None,
    ) -> None:
        """`environment` is what commands start with; by default that of this process.

        `secrets` are values, or functions that give one, by variable: a command of an agent that
        names it gets it, at high risk, and it is masked wherever it appears.
        """
        self.path = Path(path).absolute()
        self.environment = dict(os.environ if environment is None else environment)
        self.secrets = dict(secrets or {})
        self._spawner = Spawner()
        self._shells = Shells(self._spawner, self.path, self.environment)

    @property
    def tools(self) -> tuple[BuiltinName, ...]:
        """Names of the tools that a conversation here has by itself, for `Agent(tools=…)`."""
        return BUILTIN

    def run_command(self, command: str, timeout_s: float = _FOREVER_S) -> CommandResult:
        """Run `command` in one lasting shell. Safe from a tool's callback."""
        ran = self._shells.open().run(command, timeout_s=timeout_s, cancel=CancelToken())
        output = ran.output
        cut = f"\n[{output.n_cut_bytes} bytes cut]\n" if output.n_cut_bytes else ""
        if output.spill is not None:
            output.spill.unlink(missing_ok=True)
        return CommandResult(f"{output.head}{cut}{output.tail}", ran.exit_code)

    def close(self) -> None:
        """End the shell and whatever runs in it."""
        self._shells.close()
        self._spawner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
