"""Whether bash is at its prompt though it never told the end of its command, as the kernel knows.

The answer comes from Linux's /proc; where it gives none, no command seems to be lost.
"""

from __future__ import annotations

import array
import fcntl
import os
import termios
from pathlib import Path

LOST = (
    "bash is at its prompt, but did not report the end of this command: something that it ran took"
    " away what the shell needs, such as its builtins. All that ran in it was ended.\n"
)


def has_lost_command(pid: int, commands: int, reports: int) -> bool:
    """Return whether bash waits for a line on the socket `commands`, having reported all it will.

    While a command is sourced its descriptor 0 is the terminal.
    """
    process = Path("/proc", str(pid))
    try:
        # The number of the call that sleeps, then its arguments: here the descriptor.
        fd = process.joinpath("syscall").read_text().split()[1:2]
        source = process.joinpath("fd/0").stat()
    except OSError:
        return False
    is_reading = fd == ["0x0"] and os.path.samestat(source, os.fstat(commands))
    # Looked at last: what bash wrote, it wrote before it read again.
    return is_reading and not _n_unread(commands) and not _n_unread(reports)


def drain(fd: int) -> None:
    """Throw away what waits on this descriptor."""
    while n_bytes := _n_unread(fd):
        os.read(fd, n_bytes)


def _n_unread(fd: int) -> int:
    unread = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, unread)
    return unread[0]
