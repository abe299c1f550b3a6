"""The console script as a child process, as a user or another program starts it."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import starts

PLAIN = {"OH_DAEMON_TITLES": "false", "OH_DAEMON_SANDBOX": "off"}
"""A request for a title would disturb the fake model's scripts, which count requests."""
_OURS = ("OH_DAEMON", "_API_KEY")


@dataclass(frozen=True)
class Ran:
    """How the process ended."""

    code: int
    out: str
    err: str


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return this process's environment, without any model or key of whoever runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not any(word in k for word in _OURS)}
    return {**kept, "HOME": str(home), "OH_DAEMON_HOME": str(home), **PLAIN, **more}


def start(
    argv: Sequence[str | Path], folder: Path, env: Mapping[str, str], **streams: Any
) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    pipes |= {"stdin": subprocess.DEVNULL, **streams}
    return starts.start(argv, cwd=folder, env=env, text=True, **pipes)


def end(
    process: subprocess.Popen[str], send: signal.Signals | None = None, *, within_s: float = 120
) -> Ran:
    if send is not None:
        process.send_signal(send)
    out, err = process.communicate(timeout=within_s)
    return Ran(process.returncode, out, err)
