"""Serves the daemon from within a view's namespaces; runs by file path as a child of the daemon.

A request is four bytes of length and words joined by NUL: `mounts` and the places to cover, each
with what it depends on, or `socket`, a family and a port, for a TCP socket of the view's network,
bound unless the port is 0. The answer is one byte, 0 or the number of an error, with the socket.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import sys

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4  # mount(2)
_MS_REMOUNT, _MS_BIND, _MNT_DETACH = 32, 4096, 2
_EMPTY_FOLDER = b"size=4k,mode=0555"
_GONE = (FileNotFoundError, NotADirectoryError)
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_libc = ctypes.CDLL(None, use_errno=True)


def enter(pid: int) -> None:
    """Join the mounts and the network of a process, with all rights over them. Raises `OSError`."""
    mounts, network = (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in ("mnt", "net"))
    owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    for namespace in (owner, mounts, network):
        _check(_libc.setns(namespace, 0))


def serve(daemon: socket.socket, pid: int, empty: bytes, overlays: list[bytes]) -> None:
    """Serve until the daemon hangs up, or until the view has ended."""
    ended = os.pidfd_open(pid)
    enter(pid)
    daemon.send(b"\0")
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    poll.register(ended, select.POLLIN)
    covered: dict[bytes, bytes] = {}
    while ended not in dict(poll.poll()) and (head := _read(daemon, 4)):
        what, *words = _read(daemon, int.from_bytes(head, "big")).split(b"\0")
        try:
            if what == b"socket":
                _send_socket(daemon, *map(int, words))
                continue
            before, covered = covered, dict(zip(words[::2], words[1::2], strict=False))
            _bring_up_to_date(before, covered, empty, overlays)
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
    covered: dict[bytes, bytes], wanted: dict[bytes, bytes], empty: bytes, overlays: list[bytes]
) -> None:
    # The kernel keeps what it looked up in an overlay, also that something was not there. A remount
    # drops that, but not where something is mounted.
    for place, dependence in covered.items():
        if wanted.get(place) != dependence or not _is_listed(place):
            _libc.umount2(place, _MNT_DETACH)
    failed = [_libc.mount(None, place, None, _MS_REMOUNT, None) for place in overlays]
    why = ctypes.get_errno()
    for place in wanted:
        try:
            _cover(place, empty)
        except _GONE:
            continue  # Commands removed the folder that it is in.
    if any(failed):
        raise OSError(why, os.strerror(why))


def _cover(place: bytes, empty: bytes) -> None:
    """Put something empty in the place of a file or a folder, unless that is there already."""
    if os.path.isdir(place):  # noqa: PTH112 - bytes.
        if not os.path.ismount(place):
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
    names = [os.fsencode(word) for word in sys.argv[2:]]
    serve(socket.socket(fileno=0), int(sys.argv[1]), names[0], names[1:])
