"""Puts a command into a view: as a child of process 1 of a new one, or into one that runs already.

Runs by file path: `run COMMAND`, started by bubblewrap, or `join PID FOLDER COMMAND`, with the
number of a process there. Interrupts typed by a person pass by this process, and reach the command.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_KINDS = ("mnt", "ipc", "uts", "net", "pid")
_libc = ctypes.CDLL(None, use_errno=True)


def words(*arguments: str) -> list[str]:
    """Return the words before a command's own that put it there."""
    return [sys.executable, "-I", "-S", __file__, *arguments]


def run(argv: list[str]) -> int:
    """Run the command and return its exit code as a shell gives it; what it leaves is reaped."""
    child = os.fork()
    if child == 0:
        _become(argv)
    while (ended := os.wait())[0] != child:
        pass
    code = os.waitstatus_to_exitcode(ended[1])
    return code if code >= 0 else 128 - code


def _become(argv: list[str]) -> None:
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - its job.
    except OSError as exc:
        os.write(2, b"%b: %b\n" % (os.fsencode(argv[0]), str(exc.strerror).encode()))
    os._exit(127)


def join(pid: int) -> None:
    """Join all namespaces; only children of this process will be in that of processes.

    The owner of the mounts comes first, whose rights are needed for the others, and the namespace
    of what runs there last, in which nobody has these rights. See setns(2). Raises `OSError`.
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
    what, *arguments = sys.argv[1:]
    if what == "join":
        join(int(arguments[0]))
        os.chdir(arguments[1])
        arguments = arguments[2:]
    os._exit(run(arguments))
