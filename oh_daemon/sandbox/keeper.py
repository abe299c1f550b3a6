"""Keeps the mounts of a view up to date; runs by file path as a child of the daemon.

It has the rights of the namespace that owns the mounts, which nothing inside that has. A request is
four bytes of length and the places to cover, each with what it depends on, joined by NUL. The
answer is one byte: 0, or the number of an error.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import sys

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4  # mount(2)
_MS_REMOUNT, _MS_BIND, _MNT_DETACH = 32, 4096, 2
_EMPTY_FOLDER = b"size=4k,mode=0555"
_GONE = (FileNotFoundError, NotADirectoryError)
_libc = ctypes.CDLL(None, use_errno=True)


def enter(pid: int) -> None:
    """Join the mounts of a process, with all rights over them. Raises `OSError`."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    for namespace in (owner, mounts):
        _check(_libc.setns(namespace, 0))


def serve(requests: int, pid: int, empty: bytes, overlays: list[bytes]) -> None:
    """Serve until the daemon hangs up, or until the view has ended."""
    ended = os.pidfd_open(pid)
    enter(pid)
    os.write(requests, b"\0")
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(ended, select.POLLIN)
    covered: dict[bytes, bytes] = {}
    while ended not in dict(poll.poll()) and (head := _read(requests, 4)):
        words = _read(requests, int.from_bytes(head, "big")).split(b"\0")
        wanted = dict(zip(words[::2], words[1::2], strict=False))
        try:
            _bring_up_to_date(covered, wanted, empty, overlays)
            answer = 0
        except OSError as exc:
            answer = exc.errno or 255
        covered = wanted
        os.write(requests, bytes([answer]))


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


def _read(source: int, size: int) -> bytes:
    """Read that many bytes; fewer when the daemon has hung up."""
    found = b""
    while len(found) < size and (piece := os.read(source, size - len(found))):
        found += piece
    return found


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    names = [os.fsencode(word) for word in sys.argv[2:]]
    serve(0, int(sys.argv[1]), names[0], names[1:])
