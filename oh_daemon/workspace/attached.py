"""Runs one program on the terminal and the streams that we were started with, and waits for it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from oh_daemon.workspace.spawner import refusals

_FOR_THE_PROGRAM = (signal.SIGINT, signal.SIGQUIT)


def run_attached(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    fds: Sequence[int] = (),
    is_deaf: bool = False,
) -> int:
    """Return the exit code, as a shell gives it: 128 and the number of the signal that ended it.

    What is typed to interrupt it does not interrupt us, nor the program itself if it `is_deaf`.
    Raises `ToolError` when it cannot start.
    """
    # A child keeps what is ignored, and not what is handled.
    handler = signal.SIG_IGN if is_deaf else _do_nothing
    old = {number: signal.signal(number, handler) for number in _FOR_THE_PROGRAM}
    try:
        with refusals(argv[0]):
            code = subprocess.run(argv, cwd=cwd, env=env, pass_fds=fds, check=False).returncode
    finally:
        for number, before in old.items():
            signal.signal(number, before)
    return code if code >= 0 else 128 - code


def _do_nothing(_number: int, _frame: FrameType | None) -> None: ...
