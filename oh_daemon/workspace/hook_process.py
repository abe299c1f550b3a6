"""Runs hooks, which are bash commands with a text on stdin, in parallel, each with a timeout."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.hooks import HookCommand
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.hooks import HookRun
from oh_daemon.workspace.spawner import Process, Spawner, clean_env, output_file

_MAX_BYTES = 64 << 10
"""How much is read of what a hook writes to stdout, and to stderr."""


@dataclass(frozen=True, slots=True)
class HookProcesses:
    """The hooks of one folder. Secrets are removed from `environment` before a hook sees it."""

    spawner: Spawner
    folder: Path
    environment: Mapping[str, str]

    def run(
        self, hooks: Sequence[HookCommand], told: str, cancel: CancelToken
    ) -> Sequence[HookRun]:
        """Run `hooks` and block until all have ended. Raises `Cancelled`, leaving none behind."""
        begun = time.monotonic()
        started = [self._start(hook, told) for hook in hooks]
        try:
            return [
                _ended(hook, process, begun, cancel)
                for hook, process in zip(hooks, started, strict=True)
            ]
        finally:
            for process in started:
                process.close()

    def _start(self, hook: HookCommand, told: str) -> _Running:
        project = {"CLAUDE_PROJECT_DIR": str(self.folder), "OH_PROJECT_DIR": str(self.folder)}
        env = {**clean_env(self.environment), **project}
        files = (os.memfd_create("told", os.MFD_CLOEXEC), output_file(), output_file())
        os.write(files[0], told.encode("utf-8", "replace"))
        os.lseek(files[0], 0, os.SEEK_SET)
        try:
            argv = ["bash", "-c", hook.command]
            process = self.spawner.spawn(argv, cwd=self.folder, env=env, fds=files)
        except ToolError as exc:
            return _Running(None, files, str(exc))
        return _Running(process, files)


@dataclass(frozen=True, slots=True)
class _Running:
    process: Process | None
    files: tuple[int, int, int]
    problem: str = ""

    def text(self, descriptor: int) -> str:
        size = os.lseek(descriptor, 0, os.SEEK_CUR)
        return os.pread(descriptor, min(size, _MAX_BYTES), 0).decode("utf-8", "replace")

    def close(self) -> None:
        """End the hook if it still runs; processes that it detached end with the daemon."""
        if self.process is not None and not self.process.exit_code.done():
            self.process.kill_tree()
        for descriptor in self.files:
            os.close(descriptor)


def _ended(hook: HookCommand, running: _Running, begun: float, cancel: CancelToken) -> HookRun:
    if running.process is None:
        return HookRun(hook.command, None, "", running.problem)
    left_s = max(0.0, begun + hook.timeout - time.monotonic())
    code = running.process.wait(left_s, cancel)
    if code is None:
        cancel.raise_if_cancelled()
    _, out, err = running.files
    return HookRun(hook.command, code, running.text(out), running.text(err))
