"""Starts of the product: forked from a warm parent, so that they take a tenth of the time.

`start` is used as `subprocess.Popen`, and what it returns is one: a child of this process, with its
real id, signals and exit code. Only `/proc` shows the warm parent's command line and environment.
What would be decided when the interpreter starts is started as it is elsewhere.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import warm_parent

SCRIPT = Path(sys.executable).with_name("oh-daemon")
REAL = os.environ.get("OH_TEST_STARTS") == "real"
"""Whether all starts are real ones."""
_READ_IN_C = re.compile(r"PYTHON.*|LANG|LANGUAGE|LC_.*|TZ|LD_.*|MALLOC_.*|GLIBC_.*")
"""Variables that the interpreter and the libraries below it read when they start."""
_OPTIONS = {"cwd", "stdin", "stdout", "stderr", "text", "bufsize", "start_new_session"}
"""What a forked start may be asked for."""
_lock = threading.Lock()
_parents: list[_WarmParent] = []
"""One, as soon as it is needed."""


def start(
    argv: Sequence[str | Path], *, env: Mapping[str, str], **options: Any
) -> subprocess.Popen[Any]:
    """Start a program in an environment; the product and MCP servers from the warm parent."""
    words = [str(word) for word in argv]
    arguments = _arguments_of(words)
    if arguments and options.keys() <= _OPTIONS and not REAL:
        with _lock:
            parent = _parents[0] if _parents else _WarmParent()
            _parents[:] = [parent]
        if parent.is_alike(env):
            return _Forked(arguments, env=env, parent=parent, **options)
    return subprocess.Popen(argv, env=env, **options)


def end() -> None:
    """End the warm parent. What it forked lives on."""
    while _parents:
        _parents.pop().end()


def _arguments_of(words: list[str]) -> list[str] | None:
    """Return the command line from the program on, None if its modules are not there already."""
    if words[0] != sys.executable:
        return words if words[0] == str(SCRIPT) else None
    is_known = words[1:3] == ["-m", "oh_daemon"] or words[1] in warm_parent.SERVERS
    return words[1:] if is_known else None


class _WarmParent:
    """The process, and our end of the socket on which it is asked."""

    def __init__(self) -> None:
        self._socket, far_end = socket.socketpair()
        with far_end:
            self._process = subprocess.Popen(
                [sys.executable, warm_parent.__file__, str(far_end.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[far_end.fileno()],
            )
        self._answers = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self._variables: list[str] = json.loads(self._answers.readline())
        self._env = dict(os.environ)

    def is_alike(self, env: Mapping[str, str]) -> bool:
        """Return whether everything that was read at its start would be the same."""
        names = {name for name in (*env, *self._env) if _READ_IN_C.fullmatch(name)}
        return all(env.get(name) == self._env.get(name) for name in (*names, *self._variables))

    def fork(self, request: Any, descriptors: list[int]) -> int:
        """Return the id of our new child."""
        with self._lock:
            line = json.dumps(request).encode() + b"\n"
            n_sent = socket.send_fds(self._socket, [line], descriptors)
            self._socket.sendall(line[n_sent:])
            return int(self._answers.readline())

    def end(self) -> None:
        self._answers.close()
        self._socket.close()
        self._process.wait()


class _Forked(subprocess.Popen[Any]):
    _close_pipe_fds: Callable[..., None]

    def __init__(self, argv: list[str], *, parent: _WarmParent, **options: Any) -> None:
        self._parent = parent
        super().__init__(argv, **options)

    def _execute_child(self, argv: list[str], *more: Any) -> None:
        """Do what `Popen` leaves to its method of this name; it has no other seam."""
        cwd, env = more[4:6]
        pipes = more[9:15]
        child_ends = [
            number if end == -1 else end
            for number, end in enumerate((pipes[0], pipes[3], pipes[5]))
        ]
        ignored_signals = [
            n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN
        ]
        request = {
            "argv": argv,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(env),
            "ignored": ignored_signals,
            "newSession": more[20],
        }
        self.pid = self._parent.fork(request, child_ends)
        self._has_child = True
        self._close_pipe_fds(*pipes)
