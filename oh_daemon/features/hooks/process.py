"""Runs hooks, which are bash commands with a text on stdin, in parallel, each with a timeout."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.hooks.hooks import Hook, HookRun
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.environment import clean_env, project_variables
from oh_daemon.system.spawner import (
    Process,
    Spawner,
    input_file,
    output_file,
    start_errors,
    written_to,
)

_MAX_BYTES = 64 << 10
"""How much is read of what a hook writes to stdout, and to stderr."""


class HookProcesses(Struct, frozen=True):
    """The hooks of one folder. Secrets are removed from `variables` before a hook sees them."""

    spawner: Spawner
    folder: Path
    variables: Callable[[], Mapping[str, str]]
    for_project: Callable[[], Spawner] | None = None
    """Returns what starts hooks of the project, if something else does. Raises `ToolError`."""

    def run(self, hooks: Sequence[Hook], stdin_text: str, cancel: CancelToken) -> Sequence[HookRun]:
        """Run `hooks` and block until all have ended. Raises `Cancelled`, leaving none behind."""
        start_s = time.monotonic()
        with ExitStack() as stack:
            runs = [self._start(hook, stdin_text, stack) for hook in hooks]
            return [
                _wait_for_end(hook[0].timeout, process, start_s, cancel)
                for hook, process in zip(hooks, runs, strict=True)
            ]

    def _start(self, hook: Hook, payload: str, stack: ExitStack) -> _Running | HookRun:
        command, scope = hook[0].command, hook[1]
        env = {**clean_env(self.variables()), **project_variables(self.folder)}
        try:
            with start_errors("bash"):
                told_file = input_file(payload.encode("utf-8", "replace"), stack)
                out, err = output_file(stack), output_file(stack)
            inside = self.for_project if scope == "project" else None
            spawner = inside() if inside else self.spawner
            argv = ["bash", "-c", command]
            process = spawner.spawn(argv, cwd=self.folder, env=env, fds=(told_file, out, err))
        except ToolError as exc:
            return HookRun(command, None, "", str(exc))
        stack.callback(_end, process)
        return _Running(command, process, out, err)


class _Running(Struct, frozen=True):
    command: str
    process: Process
    out: int
    err: int


def _end(process: Process) -> None:
    """End the hook if it still runs; processes that it detached end with the daemon."""
    if not process.exit_code.done():
        process.kill_tree()


def _text(descriptor: int) -> str:
    return written_to(descriptor)[:_MAX_BYTES].decode("utf-8", "replace")


def _wait_for_end(
    timeout_s: float, run: _Running | HookRun, start_s: float, cancel: CancelToken
) -> HookRun:
    if isinstance(run, HookRun):
        return run
    left_s = max(0.0, start_s + timeout_s - time.monotonic())
    code = run.process.wait(left_s, cancel)
    if code is None:
        cancel.raise_if_cancelled()
    return HookRun(run.command, code, _text(run.out), _text(run.err))
