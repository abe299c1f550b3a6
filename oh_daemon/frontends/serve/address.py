"""How a client reaches the user's daemon."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from oh_daemon.system.private_files import short_path


def connect(path: Path) -> socket.socket | None:
    """Connect to the user's daemon; None if none runs."""
    peer = socket.socket(socket.AF_UNIX)
    with suppress(FileNotFoundError, ConnectionRefusedError), short_path(path.parent) as folder:
        peer.connect(str(folder / path.name))
        return peer
    peer.close()
    return None
