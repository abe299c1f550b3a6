"""Puts a program of the user's into an overlay sandbox that runs already, confined as all there.

Runs by file path: `join PID FOLDER N PLACE… PROGRAM…`, with the number of process 1 there, and the
N places where commands can write. The program has no more rights than what the agent runs there,
and is in a Landlock domain of its own, so that the agent's programs cannot trace it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_KINDS = ("mnt", "ipc", "uts", "net", "pid")
_libc = ctypes.CDLL(None, use_errno=True)


def join_words(pid: int, folder: str, places: Sequence[str]) -> list[str]:
    """Return the words before a program's own that put it there."""
    facts = ("join", str(pid), folder, str(len(places)), *places)
    return [sys.executable, "-I", "-S", __file__, *facts]


def run(argv: list[str]) -> int:
    """Run a program, and return its exit code as a shell gives it."""
    child = os.fork()
    if child == 0:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.closerange(3, 1 << 16)
            os.execvp(argv[0], argv)  # noqa: S606 - its job.
        except OSError as exc:
            os.write(2, b"%b: %b\n" % (os.fsencode(argv[0]), str(exc.strerror).encode()))
        os._exit(127)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


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
    number, folder, n_places = sys.argv[2:5]
    places, program = sys.argv[5 : 5 + int(n_places)], sys.argv[5 + int(n_places) :]
    terminals = os.open("/dev/pts", os.O_PATH | os.O_CLOEXEC)
    for typed in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(typed, signal.SIG_IGN)
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes longer than all this.
    landlock, seccomp = import_module("landlock"), import_module("seccomp")
    landlock.refuse_tracing()
    join(int(number))
    # Who joins a namespace of users has all rights in it; see user_namespaces(7). Only a child will
    # be among the processes there, so none of them is ever without the filter.
    landlock.drop_all_rights()
    landlock.confine(terminals, places)
    landlock.filter_calls(seccomp.for_view())
    os.chdir(folder)
    os._exit(run(program))
