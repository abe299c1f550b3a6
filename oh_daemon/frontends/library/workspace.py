"""`Workspace`: the folder where a program's agents work, and their commands' environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Self

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import SecretSource
from oh_daemon.conversations.conversation_runtime import BUILTIN, BuiltinName
from oh_daemon.features.sandbox.levels import Sandbox, Trial, choose, try_levels, with_mounts
from oh_daemon.features.settings.places import Places
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.features.worktrees.task_worktree import TaskWorktree
from oh_daemon.frontends.library.remote_workspace import RemoteWorkspace, remote_workspace
from oh_daemon.protocol.settings import SandboxSetting
from oh_daemon.system.git import Git, Repository
from oh_daemon.system.spawner import Spawner

_FOREVER_S = 10.0**9


class CommandResult(Struct, frozen=True):
    """The outcome of a command that `Workspace.run_command` ran."""

    output: str
    """Standard output and error as a terminal shows them; the middle of long output is cut."""
    exit_code: int | None
    """None when the time was up; the command goes on."""


class Workspace:
    """A folder for agents to work in, and for the program to run commands in.

    A context manager that closes itself. Several conversations may share one workspace.
    """

    def __init__(
        self,
        path: str | Path,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, SecretSource] | None = None,
        sandbox: SandboxSetting = "auto",
    ) -> None:
        """`environment` is that of the commands, by default a copy of this process's own.

        `secrets` maps names of variables to values, or to functions that return one. An agent's
        command that mentions such a name gets the variable, and rates as high risk. The value is
        masked wherever it appears. `sandbox` is as the setting of this name, and holds the
        commands of agents, not those of `run_command`.
        """
        self.sandbox: SandboxSetting = sandbox
        self.path = Path(path).absolute()
        self.environment = dict(os.environ if environment is None else environment)
        self.secrets = dict(secrets or {})
        self._spawner = Spawner()
        self._shells = Shells(self._spawner, self.path, lambda: self.environment)

    @staticmethod
    def remote(target: str, folder: str | Path = "", *, program: str = "") -> RemoteWorkspace:
        """Return a folder of another machine, for `Conversation` in place of a `Workspace`.

        `target` is as for `oh-daemon remote`; `folder` is the path there, if the target has none.
        `program` is the daemon there. Raises `InvalidParamsError`.
        """
        return remote_workspace(target, folder, program)

    @property
    def tools(self) -> list[BuiltinName]:
        """Names of the built-in tools that a conversation here has, for `Agent(tools=…)`.

        A new list each time, to which tools of your own can be added.
        """
        return list(BUILTIN)

    def run_command(self, command: str, timeout_s: float | None = None) -> CommandResult:
        """Run `command` in the workspace's one shell, wait, and return its outcome.

        The shell keeps its folder and variables between commands. Callable from any thread, also
        from a tool's callback; raises `ToolError` while another command runs in it.
        """
        return run_in(self._shells, command, timeout_s)

    @property
    def refusal(self) -> str | None:
        """Why no command of an agent may run here: `sandbox` names a level that is not there."""
        return WorkspaceSandbox(self.sandbox, self.environment).level([self.path]).refusal

    def patch_since(self, commit: str) -> str:
        """Return what changed in the files of this clone since a commit, for `git apply`.

        Without `.openhands`, without what git ignores, whatever was staged or committed meanwhile.
        Raises `ToolError`.
        """
        git = Git(self._spawner, Repository(self.path / ".git", self.path))
        tree = TaskWorktree(git, self.path, commit)
        return tree.patch_as_text(tree.write())

    def close(self) -> None:
        """End the shell and every process in it."""
        self._shells.close()
        self._spawner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def run_in(shells: Shells, command: str, timeout_s: float | None) -> CommandResult:
    """Run the command in the main one of the shells, and wait."""
    limit_s = _FOREVER_S if timeout_s is None else timeout_s
    result = shells.open().run(command, timeout_s=limit_s, cancel=CancelToken())
    output = result.output
    cut_note = f"\n[{output.n_cut_bytes} bytes cut]\n" if output.n_cut_bytes else ""
    if output.spill is not None:
        output.spill.unlink(missing_ok=True)
    return CommandResult(f"{output.head}{cut_note}{output.tail}", result.exit_code)


class WorkspaceSandbox(Struct, frozen=True):
    """The sandbox of agents' commands; levels are tried when it is first needed."""

    setting: SandboxSetting
    environment: Mapping[str, str]

    def level(self, folders: Sequence[Path]) -> Sandbox:
        if self.setting == "off":
            return Sandbox("off", "off")
        variables = tuple(sorted(self.environment.items()))
        return choose(self.setting, with_mounts(_levels(variables), folders))

    def is_known(self) -> bool:
        return True


@cache
def _levels(variables: tuple[tuple[str, str], ...]) -> Sequence[Trial]:
    """Try the levels, once for all conversations of this process that have the same variables."""
    environment = dict(variables)
    with closing(Spawner()) as spawner:
        return try_levels(spawner, Places(environment).state_folder, environment)
