"""How the user's other agents connect: a socket of this daemon in the user's own state folder.

It exists only with the setting `shareTools`. A client first sends one line that names a folder. It
is let in when that folder is open in this editor, and from then on both sides speak MCP.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from oh_daemon.app.served_tools import ServedTools
from oh_daemon.app.shared import Shared
from oh_daemon.core.cancel import CancelToken
from oh_daemon.mcp_servers.pipes import MAX_LINE_BYTES
from oh_daemon.mcp_servers.serving import serve
from oh_daemon.model.io_loop import run_on_loop
from oh_daemon.store.private_files import open_private, private_folder

_LET_IN = b"come in\n"
_PATIENCE_S = 10.0


class Door:
    """The socket of one daemon; after `close`, no client can connect."""

    def __init__(self, home: Path, shared: Shared, folders: Callable[[], Sequence[Path]]) -> None:
        self._home = home
        self._name = f"{os.getpid()}.sock"
        self._shared = shared
        self._folders = folders

    def open(self) -> None:
        """Start to listen. Raises `ReadOnlyError` or `OSError`."""
        self._home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        private_folder(self._home)
        run_on_loop(self._listen(), CancelToken())

    async def _listen(self) -> None:
        with _short(self._home) as folder:
            self._server = await asyncio.start_unix_server(
                self._greet, folder / self._name, limit=MAX_LINE_BYTES
            )
        (self._home / self._name).chmod(0o600)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError, ConnectionError, ValueError):
            line = await asyncio.wait_for(reader.readline(), _PATIENCE_S)
            wanted, folders = Path(line.decode().rstrip("\n")), self._folders()
            if any(wanted.is_relative_to(folder.resolve()) for folder in folders):
                writer.write(_LET_IN)
                await serve(reader, writer, ServedTools(self._shared, folders))
        writer.close()

    def close(self) -> None:
        (self._home / self._name).unlink(missing_ok=True)


def knock(home: Path, folder: Path) -> socket.socket | None:
    """Connect to a daemon that has this folder open, ready for MCP; None if there is none."""
    for place in sorted(home.glob("*.sock")):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(_PATIENCE_S)
        try:
            with _short(home) as short:
                peer.connect(str(short / place.name))
            peer.sendall(f"{folder.resolve()}\n".encode())
            if peer.recv(len(_LET_IN), socket.MSG_WAITALL) == _LET_IN:
                peer.settimeout(None)
                return peer
        except ConnectionRefusedError:
            # The socket was left behind by a daemon that was killed.
            place.unlink(missing_ok=True)
        except OSError:
            pass
        peer.close()
    return None


@contextmanager
def _short(folder: Path) -> Generator[Path]:
    """Yield a short path to the folder: that of a socket may have no more than 107 bytes."""
    known = Path("/proc/self/fd")
    if not known.exists():
        yield folder
        return
    descriptor = open_private(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield known / str(descriptor)
    finally:
        os.close(descriptor)
