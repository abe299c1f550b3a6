"""Runs a command in the namespaces of a view that runs already; runs by file path.

What it is given: the number of a process there, a folder, the path of `first`, and the command.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_KINDS = ("mnt", "ipc", "uts", "net", "pid")
_libc = ctypes.CDLL(None, use_errno=True)


def join(pid: int) -> None:
    """Join all namespaces; only children of this process will be in that of processes.

    The owner of the mounts comes first, whose rights are needed for the others, and the namespace
    of what runs there last, in which nobody has these rights. Raises `OSError`.
    """
    opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in (*_KINDS, "user")]
    owner = fcntl.ioctl(opened[0], _NS_GET_USERNS)
    for namespace in (owner, *opened[:-1]):
        _enter(namespace)
    if not os.path.sameopenfile(owner, opened[-1]):
        _enter(opened[-1])


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    join(int(sys.argv[1]))
    os.chdir(sys.argv[2])
    os.execv(sys.executable, [sys.executable, "-I", "-S", *sys.argv[3:]])  # noqa: S606 - its job.
