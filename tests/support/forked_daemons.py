"""Daemons that editors start by a command, and that are forked from the warm parent of `starts`.

The editor's child is `launcher.py`; the daemon is a child of this process, which knows the daemon
of each launcher. Tests of the start itself give the editor the product's own command.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import starts

REAL = [sys.executable, "-m", "oh_daemon"]
"""The product's own command, for tests of its start and its end."""
MARK = "OH_TEST_MARK"
"""A variable of the editor's command by which a test knows the daemons of this command."""
_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_daemons: dict[int, int] = {}
"""The process id of the daemon of each launcher."""
_marks = set[str]()
"""The marks of all daemons that were ever started."""
_has_started = threading.Condition()
_listening: list[str] = []
"""The address at which launchers ask, as soon as there is one."""


def command() -> list[str]:
    """Return the command that starts a forked daemon; the daemon's own options may follow."""
    if not _listening:
        address = f"oh-forked-daemons-{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX)
        # An abstract address, which is no file: see unix(7).
        listener.bind(f"\0{address}")
        listener.listen()
        threading.Thread(target=_accept, args=[listener], daemon=True).start()
        _listening.append(address)
    # Without the folders of packages, the launcher starts in a hundredth of a second.
    return [sys.executable, "-I", "-S", _LAUNCHER, _listening[0]]


def daemon_of(process: psutil.Process) -> psutil.Process | None:
    """Return the daemon for which this process stands, if it is a launcher whose daemon lives."""
    with contextlib.suppress(KeyError, psutil.NoSuchProcess):
        return psutil.Process(_daemons[process.pid])
    return None


def marked_pids(mark: str) -> list[str]:
    """Return the command for daemons that have this mark."""
    return ["env", f"{MARK}={mark}", *command()]


def has_started(mark: str, within_s: float) -> bool:
    """Wait until a daemon with this mark has started."""
    with _has_started:
        return _has_started.wait_for(lambda: mark in _marks, within_s)


def _accept(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=[connection], daemon=True).start()


def _serve(connection: socket.socket) -> None:
    line, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    with connection, connection.makefile("rb") as signals:
        line += b"" if line.endswith(b"\n") else signals.readline()
        if not line.endswith(b"\n"):
            return  # The editor has killed it meanwhile.
        launcher, arguments, folder, environment = json.loads(line)
        streams = dict(zip(("stdin", "stdout", "stderr"), descriptors, strict=True))
        argv = [*REAL, *arguments]
        daemon = starts.start(argv, env=environment, cwd=folder, **streams)
        for each in descriptors:
            os.close(each)
        _daemons[launcher] = daemon.pid
        with _has_started:
            _marks.add(environment.get(MARK, ""))
            _has_started.notify_all()
        threading.Thread(target=_wait, args=[daemon, connection.dup()], daemon=True).start()
        for number in signals:
            daemon.send_signal(int(number))
        # A launcher that was killed says nothing more, and one that has ended lets us come here.
        daemon.kill()
        del _daemons[launcher]


def _wait(daemon: subprocess.Popen[bytes], connection: socket.socket) -> None:
    code = daemon.wait()
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"%d" % code)
