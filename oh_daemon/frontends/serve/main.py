"""`oh-daemon serve`: from its start to its end, on the main thread."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.serve.multi_client_server import MultiClientServer
from oh_daemon.frontends.serve.socket_server import SocketServer
from oh_daemon.frontends.serve.web_server import PageOptions, WebServer
from oh_daemon.jsonrpc.stdio import signal_numbers
from oh_daemon.system import reaper

_LOOK_S = 1.0
"""How often it looks at most whether something still runs."""


def serve(
    environment: Mapping[str, str], idle_s: float, page: PageOptions | None = None
) -> NoReturn:
    """Serve the user's clients until a signal, or `idle_s` after the last one if nothing runs.

    Says on stdout where, once clients can connect. Raises `UserError` when another one serves, or
    when the page cannot be. Otherwise it ends the process.
    """
    path = Places(environment).serve_socket
    server = MultiClientServer(environment)
    SocketServer(server, path)
    web = page and WebServer(server, page)
    changes, on_change = os.pipe()
    os.set_blocking(on_change, False)

    def note_change() -> None:
        with suppress(BlockingIOError):
            os.write(on_change, b".")

    server.on_quiet = note_change
    signals = signal_numbers()
    sys.stdout.write(f"oh-daemon serves clients at {path}\n")
    if web is not None:
        sys.stdout.write(f"and a page; whoever has this link can use your agent:\n{web.link}\n")
    sys.stdout.flush()
    had_client = False
    while True:
        wait_s = max(idle_s, _LOOK_S) if had_client and server.is_quiet else None
        ready = reaper.wait_readable(signals, changes, wait_s=wait_s)
        if signals in ready:
            why = signal.Signals(os.read(signals, 1)[0]).name
            break
        if changes in ready:
            os.read(changes, 1 << 16)
            had_client = True
        elif server.is_quiet and not server.is_at_work:
            why = "nobody is there"
            break
    server.close(why)
    # Threads stuck in foreign code must not keep the process alive; everything is flushed by now.
    os._exit(0)
