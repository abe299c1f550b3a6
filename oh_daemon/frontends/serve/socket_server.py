"""The socket of the user's daemon: who may connect, and how clients reach it.

Only the user may, and no program that a daemon holds in its sandbox or has started itself: it could
allow its own actions. https://man7.org/linux/man-pages/man7/unix.7.html has SO_PEERCRED.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import struct
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from oh_daemon.frontends.serve.multi_client_server import MultiClientServer
from oh_daemon.protocol.errors import OverloadedError, UserError
from oh_daemon.system.private_files import open_private, private_folder, short_path

log = logging.getLogger(__name__)

_CREDENTIALS = struct.Struct("3i")
"""A `struct ucred`: process, user and group."""
_PAUSE_S = 1.0


class SocketServer:
    """Listens until the process ends."""

    def __init__(self, server: MultiClientServer, path: Path) -> None:
        """Take the address. Raises `UserError` when another daemon has it, and `OSError`."""
        self._server = server
        path.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        private_folder(path.parent)
        # Held until the end: whoever has it may remove a socket that a killed daemon left behind.
        self._lock = open_private(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another `oh-daemon serve` has {str(path)!r}") from None
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        with short_path(path.parent) as folder:
            self._socket.bind(str(folder / path.name))
        # The folder lets nobody in before this.
        path.chmod(0o600)
        self._socket.listen()
        threading.Thread(target=self._accept, name="door", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self._let_in_next()
            except OverloadedError as exc:
                log.warning("a connection was refused: %s", exc)
            except OSError as exc:
                # Who comes waits until somebody has left: see EMFILE in accept(2).
                log.warning("no connection can be taken: %s", exc)
                time.sleep(_PAUSE_S)

    def _let_in_next(self) -> None:
        with ExitStack() as on_refusal:
            peer = on_refusal.enter_context(self._socket.accept()[0])
            if (why := _refusal(peer)) is not None:
                log.warning("a connection was refused: %s", why)
                return
            self._server.connect(peer, "the socket")
            on_refusal.pop_all()


def _refusal(peer: socket.socket) -> str | None:
    """Return why a program may not connect."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    if uid != os.geteuid():
        return f"it is of user {uid}"
    try:
        if _n_filters(pid) > _n_filters(os.getpid()):
            return f"process {pid} runs in a sandbox"
        if _is_ours(pid):
            return f"process {pid} was started by this daemon"
    except (OSError, ValueError):
        return f"process {pid} cannot be looked at"
    return None


def _n_filters(pid: int) -> int:
    """Return how many filters of system calls hold a process: one more in each of our sandboxes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    # Before Linux 5.9 the number is not told, only whether there is any.
    return int(fields.get("Seccomp_filters", fields["Seccomp"]))


def _is_ours(pid: int) -> bool:
    while pid > 1 and pid != os.getpid():
        # The name, in parentheses, may have any characters (proc_pid_stat(5)).
        _, _, fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
        pid = int(fields.split()[1])
    return pid == os.getpid()
