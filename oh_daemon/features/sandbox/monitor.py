"""Serves the daemon from within a view's namespaces, until these end or the layers fill the disk.

It runs by file path, as a child of the daemon. `_Keeper` in `view` is its only client: a request is
four bytes of length and words joined by NUL, the answer one byte, 0 or the number of an error.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import stat
import sys
import time

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4  # mount(2)
_MS_REMOUNT, _MS_BIND, _MNT_DETACH = 32, 4096, 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EMPTY_FOLDER = b"size=4k,mode=0555"
_GONE = (FileNotFoundError, NotADirectoryError)
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
FULL = 3
_LAYERS = ("upper-", "cache-")
_GROWTH = 16 << 20
_FASTEST = 4 << 30
"""No disk is expected to take more bytes per second."""
_FIRST_LOOK_S, _LAST_LOOK_S = 0.1, 60.0
_libc = ctypes.CDLL(None, use_errno=True)


class Space:
    """What the layers of a view leave free on their disk."""

    def __init__(self, place: bytes, reserve: int) -> None:
        """The layers lie in `place`; other programs should find `reserve` bytes free."""
        self._place = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._reserve = reserve
        self._least: int | None = None
        """The smallest size of the layers since less than the reserve is free."""
        self.pause_ms = 0.0
        """For how long the reserve cannot be used up after the last look."""

    def is_used_up(self) -> bool:
        """Whether the layers have grown into the reserve, or half of it is gone.

        For the second half the cause does not count: what no layer lists any more, since it was
        deleted while it is open, takes space too.
        """
        began = time.monotonic()
        found = os.fstatvfs(self._place)
        free, has_grown = found.f_bavail * found.f_frsize, False
        if free < self._reserve:
            size = _size(self._place)
            self._least = min(size, size if self._least is None else self._least)
            has_grown = size > self._least + _GROWTH
        else:
            self._least = None
        took_s = time.monotonic() - began
        unused_s = min((free - self._reserve) / _FASTEST, _LAST_LOOK_S)
        self.pause_ms = 1000 * max(_FIRST_LOOK_S, 5 * took_s, unused_s)
        return has_grown or free < self._reserve // 2


def _size(place: int) -> int:
    """Return how many bytes the layers in a folder take, without what nobody can name."""
    stack, size = [name for name in os.listdir(place) if name.startswith(_LAYERS)], 0
    while stack:
        name = stack.pop()
        try:
            found = os.stat(name, dir_fd=place, follow_symlinks=False)
            size += found.st_blocks * 512  # stat(2)
            if stat.S_ISDIR(found.st_mode):
                folder = os.open(name, _FOLDER, dir_fd=place)
                stack += [f"{name}/{below}" for below in os.listdir(folder)]  # noqa: PTH208
                os.close(folder)
        except OSError:
            continue  # It is gone, or its name is too long.
    return size


def enter(pid: int, n_numbers: int) -> None:
    """Join the mounts and the network of a process, with all rights over them. Raises `OSError`.

    Unless it is 0, its processes get numbers below `n_numbers` only.
    """
    kinds = ("mnt", "net", "pid")
    mounts, network, processes = (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds)
    _check(_libc.setns(fcntl.ioctl(mounts, _NS_GET_USERNS), 0))
    if n_numbers:
        limit_numbers(processes, n_numbers)
    for namespace in (mounts, network):
        _check(_libc.setns(namespace, 0))


def limit_numbers(processes: int, n_numbers: int) -> None:
    """Let the numbers of processes in a namespace end there, so that there can be no more.

    This holds for root, too. The kernel must have one such limit for each namespace, which it has
    since Linux 6.14 (kernel/pid.c); only a process inside can set it.
    """
    _check(_libc.setns(processes, 0))
    if (child := os.fork()) == 0:
        try:
            with open("/proc/sys/kernel/pid_max", "w") as file:  # noqa: PTH123 - imports little.
                file.write(str(n_numbers))
        finally:
            os._exit(0)  # In many containers it cannot be written.
    os.waitpid(child, 0)


def serve(
    daemon: socket.socket, pid: int, space: Space, n_numbers: int, empty: bytes, places: list[bytes]
) -> None:
    """Serve until the daemon hangs up or the view has ended; end it when it fills the disk.

    `mounts` comes with the places to cover, each with what it depends on; `socket` with a family
    and a port, for a TCP socket of the view's network, bound unless the port is 0.
    """
    ended = os.pidfd_open(pid)
    enter(pid, n_numbers)
    daemon.send(b"\0")
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    poll.register(ended, select.POLLIN)
    covered: dict[bytes, bytes] = {}
    while ended not in (ready := dict(poll.poll(space.pause_ms))):
        if space.is_used_up():
            signal.pidfd_send_signal(ended, signal.SIGKILL)
            sys.exit(FULL)
        if daemon.fileno() not in ready:
            continue
        if not (head := _read(daemon, 4)):
            return
        what, *words = _read(daemon, int.from_bytes(head, "big")).split(b"\0")
        try:
            if what == b"socket":
                _send_socket(daemon, *map(int, words))
                continue
            before, covered = covered, dict(zip(words[::2], words[1::2], strict=False))
            _bring_up_to_date(before, covered, empty, places)
            daemon.send(b"\0")
        except OSError as exc:
            daemon.send(bytes([exc.errno or 255]))


def _send_socket(daemon: socket.socket, family: int, port: int) -> None:
    """A socket stays in the network in which it was made, whoever uses it."""
    with socket.socket(family) as made:
        if port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((_LOOPBACK[socket.AddressFamily(family)], port))
        socket.send_fds(daemon, [b"\0"], [made.fileno()])


def _bring_up_to_date(
    covered: dict[bytes, bytes], places: dict[bytes, bytes], empty: bytes, overlays: list[bytes]
) -> None:
    # The kernel keeps what it looked up in an overlay, also that something was not there. A remount
    # drops that, but not where something is mounted.
    for place, dependence in covered.items():
        if places.get(place) != dependence or not _is_listed(place):
            _libc.umount2(place, _MNT_DETACH)
    failed = [_libc.mount(None, place, None, _MS_REMOUNT, None) for place in overlays]
    why = ctypes.get_errno()
    for place in places:
        try:
            _cover(place, empty)
        except _GONE:
            continue  # Commands removed the folder that it is in.
    if any(failed):
        raise OSError(why, os.strerror(why))


def _cover(place: bytes, empty: bytes) -> None:
    """Put something empty in the place of a file or a folder, unless that is there already."""
    if os.path.isdir(place):  # noqa: PTH112 - bytes.
        # A layer can begin here, too. What covers a folder is the only mount of one block.
        if os.statvfs(place).f_blocks != 1:
            flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
            _check(_libc.mount(b"tmpfs", place, b"tmpfs", flags, _EMPTY_FOLDER))
    elif not os.path.samefile(place, empty):  # noqa: PTH121 - bytes.
        _check(_libc.mount(empty, place, None, _MS_BIND, None))


def _is_listed(place: bytes) -> bool:
    """Whether the folder has that name still; one that was removed below is kept by the mount."""
    folder, name = os.path.split(place)
    try:
        return name in os.listdir(folder)  # noqa: PTH208 - bytes.
    except OSError:
        return False


def _read(source: socket.socket, size: int) -> bytes:
    """Read that many bytes; fewer when the daemon has hung up."""
    found = b""
    while len(found) < size and (piece := source.recv(size - len(found))):
        found += piece
    return found


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    number, reserve, n_numbers = map(int, sys.argv[1:4])
    empty, *places = map(os.fsencode, sys.argv[4:])
    space = Space(os.path.dirname(empty), reserve)  # noqa: PTH120 - bytes.
    serve(socket.socket(fileno=0), number, space, n_numbers, empty, places)
