"""`oh-daemon remote`: takes descriptors 0 and 1, starts the carrier, and imports the rest."""

from __future__ import annotations

import os
import sys

from oh_daemon.frontends.remote.carrier import Carrier
from oh_daemon.frontends.remote.target import parse_target
from oh_daemon.frontends.remote.uris import parse_folders
from oh_daemon.jsonrpc.stdio import claim_stdio


def install(text: str) -> int:
    """Copy this installation to a target. Raises `UserError`."""
    from oh_daemon.frontends.remote.install import install as copy_to  # noqa: PLC0415 - for few.

    target = parse_target(text)
    sys.stdout.write(f"{target.text}: {copy_to(target)}\n")
    return 0


def serve(text: str, program: str, maps: list[str]) -> int:
    """Serve one editor with the daemon at a target; does not return, but ends the process.

    Raises `UserError` when the target cannot be one.
    """
    target, folders = parse_target(text), parse_folders(maps)
    carrier = Carrier(target, program, os.environ)
    stdio = claim_stdio()
    from oh_daemon.frontends.remote.proxy import RemoteProxy  # noqa: PLC0415 - the carrier starts meanwhile.

    code = RemoteProxy(stdio, carrier, folders).run()
    sys.stderr.flush()
    # Threads that wait for the editor or for a model must not keep the process alive.
    os._exit(code)
