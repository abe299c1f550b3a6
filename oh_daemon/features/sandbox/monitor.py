"""Serves the daemon from inside a sandbox's namespaces until they end or the disk is nearly full.

It runs in a fork of the daemon's reaper. `_MonitorProcess` in `overlay` is its only client: a
request is four bytes of length and words joined by NUL, the answer one byte, 0 or the number of an
error.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import time

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4  # mount(2)
_MS_REMOUNT, _MS_BIND, _MNT_DETACH = 32, 4096, 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
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


class DiskSpace:
    """The space that the layers of a sandbox leave free on their disk."""

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
        start_s = time.monotonic()
        stats = os.fstatvfs(self._place)
        free, has_grown = stats.f_bavail * stats.f_frsize, False
        if free < self._reserve:
            size = _size(self._place)
            self._least = min(size, size if self._least is None else self._least)
            has_grown = size > self._least + _GROWTH
        else:
            self._least = None
        took_s = time.monotonic() - start_s
        unused_s = min((free - self._reserve) / _FASTEST, _LAST_LOOK_S)
        self.pause_ms = 1000 * max(_FIRST_LOOK_S, 5 * took_s, unused_s)
        return has_grown or free < self._reserve // 2


def _size(place: int) -> int:
    """Return how many bytes the layers in a folder take, without what nobody can name."""
    stack, size = [name for name in os.listdir(place) if name.startswith(_LAYERS)], 0
    while stack:
        name = stack.pop()
        try:
            entry = os.stat(name, dir_fd=place, follow_symlinks=False)
            size += entry.st_blocks * 512  # stat(2)
            if stat.S_ISDIR(entry.st_mode):
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
    daemon: socket.socket,
    pid: int,
    space: DiskSpace,
    n_numbers: int,
    empty: bytes,
    places: list[bytes],
) -> int:
    """Serve until the daemon hangs up or the sandbox has ended; end it when it fills the disk.

    Returns the exit code: `FULL` in the last case, otherwise 0.

    `mounts` comes with the places to cover, each with what it depends on; `socket` with a family
    and a port, for a TCP socket of the sandbox's network, bound unless the port is 0.
    """
    descriptor = os.pidfd_open(pid)
    links = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    original = os.stat(empty, follow_symlinks=False)  # noqa: PTH116 - bytes.
    enter(pid, n_numbers)
    covers = Covers(links, places, empty, original)
    daemon.send(b"\0")
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    poll.register(descriptor, select.POLLIN)
    while descriptor not in (ready := dict(poll.poll(space.pause_ms))):
        if space.is_used_up():
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            return FULL
        if daemon.fileno() not in ready:
            continue
        if not (head := _read(daemon, 4)):
            return 0
        what, *words = _read(daemon, int.from_bytes(head, "big")).split(b"\0")
        try:
            if what == b"socket":
                _send_socket(daemon, *map(int, words))
                continue
            covers.bring_up_to_date(dict(zip(words[::2], words[1::2], strict=False)))
            daemon.send(b"\0")
        except OSError as exc:
            daemon.send(bytes([exc.errno or 255]))
    return 0


def _send_socket(daemon: socket.socket, family: int, port: int) -> None:
    """A socket stays in the network in which it was made, whoever uses it."""
    with socket.socket(family) as new_socket:
        if port:
            new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            new_socket.bind((_LOOPBACK[socket.AddressFamily(family)], port))
        socket.send_fds(daemon, [b"\0"], [new_socket.fileno()])


class Covers:
    """The mounts over secrets in one sandbox, of which only those are unmounted that it knows.

    Commands can put a link under every name in a layer, and exchange it at any moment. So each
    place is opened part by part from the root of its layer, as RESOLVE_NO_SYMLINKS of openat2(2)
    does, and mounts change at the open descriptor only: the link to it below `/proc/self/fd` leads
    to exactly what was opened, whatever the names say by then; see proc(5).
    """

    def __init__(
        self, own: int, layers: list[bytes], empty: bytes, original: os.stat_result
    ) -> None:
        """`own` is `/proc/self`, opened outside: that of the sandbox does not know this process.

        Raises `OSError`, also if a layer or the empty file is not what the sandbox was started
        with.
        """
        self._own = own
        # mount(2) and umount2(2) take a path; from here, that of a descriptor is its number.
        os.fchdir(_opened(own, b"fd", _FOLDER))
        self._root = os.open("/", _NAME)
        self._layers = {place: _opened(self._root, place, _NAME) for place in layers}
        kinds = self._kinds_of(self._layers)
        self._overlays = [at for place, at in self._layers.items() if kinds[place] == b"overlay"]
        """Those that are not covered as a whole."""
        self._empty = _opened(self._root, empty, _NAME)
        if not os.path.samestat(os.fstat(self._empty), original):
            raise OSError(errno.ESTALE, "the empty file has been moved away")
        self._mounts: dict[bytes, tuple[bytes, int]] = {}
        """By place, what the cover depends on, and the number of its mount."""

    def bring_up_to_date(self, places: dict[bytes, bytes]) -> None:
        """Cover these places and no others, each given with what it depends on."""
        # The kernel keeps what it looked up in an overlay, also that something was not there. A
        # remount drops that, but not where something is mounted.
        for place, (dependence, number) in [*self._mounts.items()]:
            if places.get(place) != dependence or not self._is_listed(place):
                self._uncover(place, number)
                del self._mounts[place]
        for descriptor in self._overlays:
            flags = _MS_REMOUNT | _MS_NOSUID | _MS_NODEV
            _check(_libc.mount(None, b"%d" % descriptor, None, flags, None))
        for place, dependence in places.items():
            try:
                self._mounts[place] = (dependence, self._cover(place))
            except _GONE:
                continue  # Commands removed the folder that it is in, or put a link there.

    def _cover(self, place: bytes) -> int:
        """Put something empty in the place of a file or a folder, unless that is there already.

        Returns the number of the mount. In place of a link nothing is seen of the disk.
        """
        if (number := self._number_of_cover(place)) is not None:
            return number
        target = self._open(place)
        try:
            status = os.fstat(target)
            if stat.S_ISLNK(status.st_mode):
                raise FileNotFoundError
            self._mount_at(target, is_folder=stat.S_ISDIR(status.st_mode))
        finally:
            os.close(target)
        # Commands may have renamed the place: the mount went with the file, and covers it there.
        if (number := self._number_of_cover(place)) is None:
            raise FileNotFoundError
        return number

    def _number_of_cover(self, place: bytes) -> int | None:
        target = self._open(place)
        try:
            is_cover = self._is_cover(target, os.fstat(target))
            return self._mount_of(target) if is_cover else None
        finally:
            os.close(target)

    def _mount_at(self, target: int, *, is_folder: bool) -> None:
        at = b"%d" % target
        if is_folder:
            flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV
            _check(_libc.mount(b"tmpfs", at, b"tmpfs", flags, _EMPTY_FOLDER))
        else:
            _check(_libc.mount(b"%d" % self._empty, at, None, _MS_BIND, None))

    def _is_cover(self, target: int, status: os.stat_result) -> bool:
        if stat.S_ISDIR(status.st_mode):
            # A layer can begin here, too. What covers a folder is the only mount of one block.
            return os.fstatvfs(target).f_blocks == 1
        return os.path.samestat(status, os.fstat(self._empty))

    def _uncover(self, place: bytes, number: int) -> None:
        """Unmount what covers a place, if it is the mount of that number, as it was made."""
        try:
            target = self._open(place)
        except OSError:
            return  # The name is gone, and the mount with it.
        try:
            if self._mount_of(target) == number:
                _libc.umount2(b"%d" % target, _MNT_DETACH)
        finally:
            os.close(target)

    def _is_listed(self, place: bytes) -> bool:
        """Whether the folder has that name still; one that was removed below the mount keeps."""
        above, _, name = place.rpartition(b"/")
        try:
            folder = self._open(above)
            try:
                descriptor = os.open(b"%d" % folder, _FOLDER & ~os.O_NOFOLLOW)
            finally:
                os.close(folder)
            try:
                return os.fsdecode(name) in os.listdir(descriptor)  # noqa: PTH208 - a descriptor.
            finally:
                os.close(descriptor)
        except OSError:
            return False

    def _open(self, place: bytes) -> int:
        """Open a place from the innermost layer that it is in, without following a link."""
        layers = (at for at in self._layers if place == at or place.startswith(at + b"/"))
        innermost = max(layers, key=len, default=b"")
        return _opened(self._layers.get(innermost, self._root), place[len(innermost) :], _NAME)

    def _mount_of(self, descriptor: int) -> int:
        """Return the number of the mount that something open lies in; see proc_pid_fdinfo(5)."""
        info = _content(self._own, b"fdinfo/%d" % descriptor)
        return int(info.partition(b"mnt_id:")[2].split(None, 1)[0])

    def _kinds_of(self, folders: dict[bytes, int]) -> dict[bytes, bytes]:
        """Return which kind of mount lies at each place; see proc_pid_mountinfo(5)."""
        rows = [line.split(b" ") for line in _content(self._own, b"mountinfo").splitlines()]
        kinds = {(int(row[0]), _unescaped(row[4])): row[row.index(b"-") + 1] for row in rows}
        try:
            return {place: kinds[self._mount_of(at), place] for place, at in folders.items()}
        except KeyError as exc:
            raise OSError(errno.ESTALE, "a layer has been moved away") from exc


def _opened(root: int, name: bytes, flags: int) -> int:
    """Open what lies below a folder, part by part: with O_NOFOLLOW, no part can be a link."""
    at = os.dup(root)
    parts = [part for part in name.split(b"/") if part]
    for number, part in enumerate(parts, 1):
        try:
            descriptor = os.open(part, flags if number == len(parts) else _NAME, dir_fd=at)
        finally:
            os.close(at)
        at = descriptor
    return at


def _content(folder: int, name: bytes) -> bytes:
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:  # noqa: PTH123 - a descriptor.
        return file.read()


def _unescaped(path: bytes) -> bytes:
    for character in b" \t\n\\":
        path = path.replace(b"\\%03o" % character, bytes([character]))
    return path


def _read(source: socket.socket, size: int) -> bytes:
    """Read that many bytes; fewer when the daemon has hung up."""
    data = b""
    while len(data) < size and (piece := source.recv(size - len(data))):
        data += piece
    return data


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(root: str, reserve: str, n_numbers: str, empty: str, *places: str) -> int:
    """Serve the daemon on descriptor 0; the arguments are those of `serve`."""
    space = DiskSpace(os.path.dirname(os.fsencode(empty)), int(reserve))  # noqa: PTH120 - bytes.
    layers = [*map(os.fsencode, places)]
    numbers = (int(root), space, int(n_numbers))
    return serve(socket.socket(fileno=0), *numbers, os.fsencode(empty), layers)
