"""`oh-daemon attach`: lets any client of the protocol use the user's daemon as its command.

It passes bytes on and reads none of them, so that it imports next to nothing.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.serve.address import connect
from oh_daemon.jsonrpc.stdio import claim_stdio
from oh_daemon.system.private_files import write_all

_AT_ONCE = 1 << 16
_NONE_RUNS = 4


def attach(environment: Mapping[str, str], *, starts: bool) -> int | None:
    """Pass everything on until either side has ended; return the exit code, None if none runs.

    With `starts`, a daemon is started if none runs; it goes on without this process.
    """
    path = Places(environment).serve_socket
    peer = connect(path)
    if peer is None and starts:
        from oh_daemon.system.spawner import start_apart  # noqa: PLC0415 - for one of many.

        start_apart([sys.executable, "-P", "-m", "oh_daemon", "serve"], environment)
        peer = connect(path)
    if peer is None:
        return None
    pass_on(peer, *claim_stdio())
    return 0


def attach_or_say_why(environment: Mapping[str, str], *, starts: bool) -> int:
    code = attach(environment, starts=starts)
    if code is None:
        hint = "its log file says why" if starts else "start it with `oh-daemon serve`"
        path = Places(environment).serve_socket
        sys.stderr.write(f"oh-daemon: no daemon serves at {path}; {hint}\n")
        return _NONE_RUNS
    return code


def pass_on(peer: socket.socket, inbound: int, outbound: int) -> None:
    """Pass bytes both ways until either side has ended."""

    def send() -> None:
        with suppress(OSError):  # The daemon has ended.
            while data := os.read(inbound, _AT_ONCE):
                peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, name="pass-on", daemon=True).start()
    with suppress(OSError):  # The client has ended, or the daemon was killed.
        while data := peer.recv(_AT_ONCE):
            write_all(outbound, data)
