"""Runs git to compare and to bring back: on the disk, or in a view, where its output is a claim.

Without hooks, without programs that watch files, and without variables of the environment.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.workspace.spawner import Process, Spawner, clean_env, output_file, refusals

_TIMEOUT_S = 60.0
_WORDS = (
    *("git", "--no-replace-objects", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What git said."""

    exit_code: int
    output: bytes
    error: str


def run_git(
    spawner: Spawner,
    *arguments: str,
    cwd: Path = Path("/"),
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Answer:
    """Run git to its end. Raises `ToolError` when it cannot start or takes too long."""
    env = {k: v for k, v in clean_env(os.environ).items() if not k.startswith("GIT_")}
    with ExitStack() as stack, refusals("git"):
        given = stack.enter_context(tempfile.TemporaryFile())
        given.write(stdin)
        given.seek(0)
        out, err = output_file(), output_file()
        stack.callback(os.close, out)
        stack.callback(os.close, err)
        process = spawner.spawn(
            (*_WORDS, *arguments),
            cwd=cwd,
            env={**env, "LC_ALL": "C", **(variables or {})},
            fds=[given.fileno(), out, err],
        )
        return Answer(
            _exit_code(process, timeout_s), _written(out), _written(err).decode("utf-8", "replace")
        )


def _exit_code(process: Process, timeout_s: float) -> int:
    code = process.wait(timeout_s)
    if code is None:
        process.kill_tree()
        raise ToolError(f"git took more than {timeout_s:g} s and was ended")
    return code


def _written(descriptor: int) -> bytes:
    return os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR), 0)


@dataclass(frozen=True, slots=True)
class Repository:
    """Where git keeps its files, and the files that it keeps."""

    git_dir: Path
    work_tree: Path | None = None
    """None for what has none, or has it in its settings."""


def init(host: Spawner, work_tree: Path) -> None:
    """Make a repository with the user's own settings. Raises `ToolError`."""
    answer = run_git(host, "init", "-q", "--", str(work_tree))
    if answer.exit_code:
        raise ToolError(f"git init: {answer.error.strip()}")


@dataclass(frozen=True, slots=True)
class Git:
    """git for one repository. Raises `ToolError`."""

    spawner: Spawner
    repository: Repository
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def ask(self, *arguments: str, stdin: bytes = b"") -> Answer:
        # The folder is outside of every repository: else names would be relative to it.
        where = [f"--git-dir={self.repository.git_dir}"]
        if self.repository.work_tree is not None:
            where.append(f"--work-tree={self.repository.work_tree}")
        variables = self.variables
        return run_git(self.spawner, *where, *arguments, stdin=stdin, variables=variables)

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        answer = self.ask(*arguments, stdin=stdin)
        if answer.exit_code:
            why = answer.error.strip().partition("\n")[0]
            raise ToolError(f"git {arguments[0]}: {why or f'exit code {answer.exit_code}'}")
        return answer.output

    def rows(self, *arguments: str, stdin: bytes = b"") -> list[str]:
        return os.fsdecode(self.run(*arguments, stdin=stdin)).split("\n")[:-1]
