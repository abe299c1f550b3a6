"""What connects a client to a daemon: a `Line`, such as two descriptors that are open already."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import Protocol

from oh_daemon.protocol.errors import DaemonError, UserError


class Line(Protocol):
    """What connects to one daemon: a child process, or whatever else has two descriptors."""

    @property
    def inbound(self) -> int:
        """Reads what the daemon writes. The client closes it at the end."""
        ...

    @property
    def outbound(self) -> int:
        """Is the daemon's input."""
        ...

    def close_input(self) -> None:
        """Let the daemon end. Called once."""

    def failure(self) -> DaemonError:
        """Return why there is no connection any more, and what to do; may wait for the reason."""
        ...

    def kill(self) -> None:
        """End what is left of the connection, and what it started."""


class Descriptors:
    """A `Line` over two descriptors, or a socket's one, which are its own from now on."""

    def __init__(self, inbound: int, outbound: int) -> None:
        self.inbound = os.dup(inbound) if inbound == outbound else inbound
        self.outbound = outbound

    def close_input(self) -> None:
        if not stat.S_ISSOCK(os.fstat(self.outbound).st_mode):
            os.close(self.outbound)
            return
        # It is still read from, so closing it would not tell the other end.
        with socket.socket(fileno=self.outbound) as end, suppress(OSError):
            end.shutdown(socket.SHUT_WR)

    def failure(self) -> DaemonError:
        return UserError("the daemon has closed the connection", hint="its log file says why")

    def kill(self) -> None:
        """Do nothing: whoever started the daemon ends it."""
