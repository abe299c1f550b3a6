"""The parent of every process the daemon starts; runs by file path as a child of the daemon.

Starts processes, reports their exits and cleans up: when its socket closes (the daemon may have
been killed) it ends every descendant, however detached, and removes the shells' scratch folders.
It imports little, so that it starts fast and stays small: each sandbox has one of its own.
`spawner` is its only client and documents the packets.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import os
import select
import signal
import socket
import sys
import termios
import time
from importlib import import_module

GRACE_S = 0.5
MAX_REQUEST_BYTES = 1 << 18
MAX_FDS = 8
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_MAX_STAT_BYTES = 4096
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


Processes = dict[int, tuple[int, int, int]]
"""pid -> (parent, process group, session), as /proc/pid/stat has them; see proc(5)"""


def processes() -> Processes:
    """All living processes. Zombies do not count."""
    living: Processes = {}
    # Not by `Path`: of each process of the machine, this takes a fifth of the time.
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - as above.
        try:
            state, parent, group, session = _status(name)[:4]
        except OSError:
            continue  # It ended while we looked.
        if state not in b"ZX":
            living[int(name)] = (int(parent), int(group), int(session))
    return living


def start_time(pid: int) -> bytes:
    """When a living process began, as `starttime` of proc_pid_stat(5); b"" when it has ended."""
    try:
        status = _status(str(pid))
    except OSError:
        return b""
    return status[19] if status[0] not in b"ZX" else b""


def _status(name: str) -> list[bytes]:
    descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        stat = os.read(descriptor, _MAX_STAT_BYTES)
    finally:
        os.close(descriptor)
    # The program's name is in parentheses and may itself contain parentheses and spaces.
    return stat[stat.rindex(b")") + 2 :].split(maxsplit=20)


def descendants(roots: set[int], among: Processes) -> set[int]:
    """Return the living descendants of `roots`, without the roots."""
    family = set(roots)
    while new := {pid for pid, row in among.items() if row[0] in family and pid not in family}:
        family |= new
    return family - roots


def children(pid: int) -> list[int]:
    """The living children of a process that has one thread."""
    try:
        return [*map(int, _content(f"/proc/{pid}/task/{pid}/children").split())]
    except OSError:
        return []


def inner_number(pid: int) -> int:
    """The number of a process in the innermost namespace that it is in; -1 if it has ended."""
    try:
        status = _content(f"/proc/{pid}/status")
    except OSError:
        return -1
    _, _, numbers = status.partition(b"\nNSpid:")
    return int(numbers.split(b"\n", 1)[0].split()[-1])


def _content(path: str) -> bytes:
    # Not by `Path`, which takes a fifth of the memory of a reaper.
    with open(path, "rb") as file:  # noqa: PTH123 - as above.
        return file.read()


def send_signal(pids: set[int] | list[int], number: int) -> None:
    # To kill(2) 0 and -1 mean groups of processes, and 1 is init: none is ever ours to signal.
    for pid in (pid for pid in pids if pid > 1):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # It ended, or it belongs to another user (sudo) and is not ours to end.


def main(daemon: socket.socket, scratch: str) -> None:
    """Serve until the daemon hangs up; at the end remove the folders that begin with `scratch`."""
    os.set_inheritable(daemon.fileno(), False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    try:
        daemon.send(b"ready")
        while _serve(daemon, wake):
            pass
    except (BrokenPipeError, ConnectionResetError):
        pass  # The daemon is gone.
    _end_all(wake)
    place, _, start = scratch.rpartition("/")
    names = [name for name in os.listdir(place) if name.startswith(start)]  # noqa: PTH208 - as above.
    if names:
        import shutil  # noqa: PLC0415 - takes longer than all the rest of the start.

        for name in names:
            shutil.rmtree(f"{place}/{name}", ignore_errors=True)


def _serve(daemon: socket.socket, wake: int) -> bool:
    """Wait for one request or exit and handle it; false when the daemon has hung up."""
    readable = wait_readable(daemon.fileno(), wake)
    if wake in readable:
        os.read(wake, 4096)
        for pid, code in _reap():
            daemon.send(b"exit %d %d" % (pid, code))
    if daemon.fileno() not in readable:
        return True
    # Space for the most descriptors that a request may have: any that do not fit would be lost, of
    # which MSG_CTRUNC tells; see unix(7).
    request, extra, flags, _ = daemon.recvmsg(
        MAX_REQUEST_BYTES, socket.CMSG_LEN(4 * MAX_FDS), socket.MSG_CMSG_CLOEXEC
    )
    data = b"".join(payload for _, _, payload in extra)
    fds = [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]
    if request:
        is_cut = bool(flags & socket.MSG_CTRUNC)
        daemon.send(_start(request, fds, is_cut=is_cut))
    for fd in fds:
        os.close(fd)
    return bool(request)


def wait_readable(*descriptors: int, wait_s: float | None = None) -> set[int]:
    """Wait until one of the descriptors can be read; return those that can."""
    # Not by select(2): a reaper has its socket under the daemon's number, which may be above 1023.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {found for found, _ in poll.poll(None if wait_s is None else 1000 * wait_s)}


def _start(request: bytes, fds: list[int], *, is_cut: bool) -> bytes:
    """Start a program and return the report: `started TAG PID` or `failed TAG ERRNO`."""
    tag, n_args, cwd, *words = request.split(b"\0")
    if is_cut:
        return b"failed %b %d" % (tag, errno.EMFILE)
    try:
        pid = os.fork()
    except OSError as exc:
        return b"failed %b %d" % (tag, exc.errno)
    if pid == 0:
        _become(cwd, words[: int(n_args)], words[int(n_args) :], fds)
    return b"started %b %d" % (tag, pid)


def _become(cwd: bytes, argv: list[bytes], env: list[bytes], fds: list[int]) -> None:
    """Turn this fork into the program, with `fds` as descriptors 0, 1, 2 … and no others."""
    try:
        # Moved far above all targets first, so that no dup2 overwrites a descriptor still needed.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in fds]
        for target, fd in enumerate(high):
            os.dup2(fd, target)
        # Also what the reaper itself was started with, such as the lock of a sandbox.
        descriptors = os.listdir("/proc/self/fd")  # noqa: PTH208 - as above.
        os.closerange(max(len(fds), 3), max(map(int, descriptors)) + 1)
        os.setsid()
        if os.isatty(1):
            fcntl.ioctl(1, termios.TIOCSCTTY, 0)
        for number in (*_ENDS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if not cwd:
            _run_here(*map(os.fsdecode, argv))
        os.chdir(cwd)
        os.execve(argv[0], argv, dict(entry.split(b"=", 1) for entry in env))  # noqa: S606 - its job.
    except OSError as exc:
        os.write(2, b"%b: %b\n" % (argv[0], os.strerror(exc.errno or 0).encode()))
    finally:
        os._exit(127)


def _run_here(script: str, *arguments: str) -> None:
    """Run `main` of a module of this package in this fork, and exit with the code it returns.

    The fork shares the memory of the reaper as long as nothing writes there. The garbage collector
    would: it marks each object that it visits.
    """
    gc.disable()
    gc.freeze()
    signal.set_wakeup_fd(-1)
    folder, _, name = script.rpartition("/")
    sys.path.append(folder)
    os._exit(import_module(name.removesuffix(".py")).main(*arguments))


def _reap() -> list[tuple[int, int]]:
    """Collect the children that ended, orphans included: pid and exit code (-signal)."""
    exits: list[tuple[int, int]] = []
    try:
        while (status := os.waitpid(-1, os.WNOHANG))[0]:
            exits.append((status[0], os.waitstatus_to_exitcode(status[1])))
    except ChildProcessError:
        pass
    return exits


def _end_all(wake: int) -> None:
    """Send SIGTERM, wait for a grace period, then SIGKILL until no descendant is left."""
    deadline = time.monotonic() + GRACE_S
    # An interactive shell ignores SIGTERM (bash manual, 3.7.6 Signals), and a stopped process gets
    # no signal before SIGCONT; see signal(7).
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
        send_signal(descendants({os.getpid()}, processes()), number)
    while (_reap(), below := descendants({os.getpid()}, processes()))[1]:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            send_signal(below, signal.SIGKILL)
        if wait_readable(wake, wait_s=max(left_s, 0.01)):
            os.read(wake, 4096)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
