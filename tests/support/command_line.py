"""The console script as a child process, as a user or another program starts it."""

import os
import pty
import signal
import subprocess
import sys
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
    variables = {k: v for k, v in os.environ.items() if not any(word in k for word in _OURS)}
    return {**variables, "HOME": str(home), "OH_DAEMON_HOME": str(home), **PLAIN, **more}


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


def run_python(
    words: Sequence[str | Path], env: Mapping[str, str], folder: Path | None = None
) -> str:
    """Run a program to its end, with `env` laid over ours; return what it prints."""
    outcome = subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    return outcome.stdout


def type_into(
    argv: Sequence[str | Path], folder: Path, env: Mapping[str, str], answers: Mapping[str, bytes]
) -> tuple[int, str]:
    """Run a command on a terminal, where each answer is typed once its question is there.

    Returns the exit code and all that was to be seen.
    """
    own_end, far_end = pty.openpty()
    # In a session of its own, so that it asks here and not on the terminal of the tests.
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), far_end)
    process = start(argv, folder, env, **streams, start_new_session=True)
    os.close(far_end)
    output = b""
    for question, answer in answers.items():
        while question.encode() not in output:
            piece = read_terminal(own_end)
            assert piece, output
            output += piece
        os.write(own_end, answer)
    while piece := read_terminal(own_end):
        output += piece
    os.close(own_end)
    return process.wait(timeout=60), output.decode()


def read_terminal(descriptor: int) -> bytes:
    """Return what comes next; nothing once the other side has closed."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
