"""Makes changes below a view's overlays visible in it; runs by file path as a child of the daemon.

The kernel keeps what it looked up in an overlay, also that something was not there. A remount drops
that; it needs the rights of the namespace that owns the mounts, which nothing inside it has.
For each byte that it reads it remounts all and answers with one: 0, or the number of an error.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import sys

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_MS_REMOUNT = 32
_libc = ctypes.CDLL(None, use_errno=True)


def enter(pid: int) -> None:
    """Join the mounts of a process, with all rights over them. Raises `OSError`."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    for namespace in (owner, mounts):
        if _libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def serve(requests: int, pid: int, places: list[bytes]) -> None:
    """Serve until the daemon hangs up, or until the view has ended."""
    ended = os.pidfd_open(pid)
    enter(pid)
    os.write(requests, b"\0")
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while ended not in dict(poll.poll()) and os.read(requests, 1):
        failed = [_libc.mount(None, place, None, _MS_REMOUNT, None) for place in places]
        os.write(requests, bytes([ctypes.get_errno() if any(failed) else 0]))


if __name__ == "__main__":
    serve(0, int(sys.argv[1]), [os.fsencode(place) for place in sys.argv[2:]])
