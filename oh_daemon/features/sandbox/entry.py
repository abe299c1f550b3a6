"""Puts a program of the user's into an overlay sandbox that runs already, confined as all there.

Runs by file path: `join PID FOLDER N PLACE… PROGRAM…`, with the number of process 1 there, and the
N places where commands can write. The program has no more rights than what the agent runs there,
and is in a Landlock domain of its own, so that the agent's programs cannot trace it. With
`isolated` in the place of `join` it also is process 1 of a namespace of its own, and no program
there sees it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_KINDS = ("mnt", "ipc", "uts", "net")
_NEW_MOUNTS, _NEW_PROCESSES = 0x00020000, 0x20000000  # unshare(2)
_MS_RDONLY, _MS_NOSUID_NODEV_NOEXEC, _MS_REC, _MS_PRIVATE = 1, 14, 0x4000, 0x40000  # mount(2)
_libc = ctypes.CDLL(None, use_errno=True)


def join_words(pid: int, folder: str, places: Sequence[str]) -> list[str]:
    """Return the words before a program's own that put it there."""
    return _words("join", pid, folder, places)


def apart_words(pid: int, folder: str, places: Sequence[str]) -> list[str]:
    """Return the words before those of a program that the others there must not see."""
    return _words("isolated", pid, folder, places)


def _words(how: str, pid: int, folder: str, places: Sequence[str]) -> list[str]:
    facts = (how, str(pid), folder, str(len(places)), *places)
    return [sys.executable, "-I", "-S", __file__, *facts]


def run(argv: list[str], confine: Callable[[], None]) -> int:
    """Run a program, and return its exit code as a shell gives it."""
    child = os.fork()
    if child == 0:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            confine()
            os.closerange(4, 1 << 16)
            os.execvp(argv[0], argv)  # noqa: S606 - its job.
        except OSError as exc:
            os.write(2, b"%b: %b\n" % (os.fsencode(argv[0]), str(exc.strerror).encode()))
        os._exit(127)
    # A shell that runs this gets such a signal to drop the rest of an interrupted command.
    signal.signal(signal.SIGUSR2, lambda number, _frame: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def join(pid: int, *, isolated: bool) -> int:
    """Join all namespaces but that of users; return that one, which is joined last.

    The owner of the mounts comes first, whose rights are needed for the others; in the one of what
    runs there nobody has these rights. Only children of this process will be in the namespace of
    processes. See setns(2). Raises `OSError`.
    """
    kinds = _KINDS if isolated else (*_KINDS, "pid")
    descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in (*kinds, "user")]
    for namespace in (fcntl.ioctl(descriptors[0], _NS_GET_USERNS), *descriptors[:-1]):
        _enter(namespace)
    if isolated:
        # Its parent is the namespace of the host, so that those in the sandbox do not see into it.
        _check(_libc.unshare(_NEW_MOUNTS | _NEW_PROCESSES))
        _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    return descriptors[-1]


def _show_own_processes() -> None:
    """Mount a `/proc` of this namespace of processes; its settings of the kernel are root's."""
    _check(_libc.mount(b"proc", b"/proc", b"proc", _MS_RDONLY | _MS_NOSUID_NODEV_NOEXEC, None))


def _enter_users(namespace: int) -> None:
    with suppress(OSError):  # EINVAL: it is in that one already; see setns(2).
        _enter(namespace)


def _enter(namespace: int) -> None:
    _check(_libc.setns(namespace, 0))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _main(how: str, pid: str, folder: str, places: list[str], program: list[str]) -> int:
    terminals = os.open("/dev/pts", os.O_PATH | os.O_CLOEXEC)
    for typed in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(typed, signal.SIG_IGN)
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes longer than all this.
    landlock, seccomp = import_module("landlock"), import_module("seccomp")
    landlock.refuse_tracing()
    users = join(int(pid), isolated=how == "isolated")

    def confine() -> None:
        _enter_users(users)
        # Who joins a namespace of users has all rights in it; see user_namespaces(7).
        landlock.drop_all_rights()
        landlock.confine(terminals, places)
        landlock.filter_calls(seccomp.for_overlay())
        with suppress(OSError):  # A command removed it.
            os.chdir(folder)

    def confine_apart() -> None:
        _show_own_processes()
        confine()
        landlock.end_with_parent()

    if how == "isolated":
        return run(program, confine_apart)
    # Now, so that no process that the others there can see is ever without the filter.
    confine()
    return run(program, landlock.end_with_parent)


if __name__ == "__main__":
    how, number, start, n_places, *rest = sys.argv[1:]
    n = int(n_places)
    os._exit(_main(how, number, start, rest[:n], rest[n:]))
