"""Serves the daemon from inside a sandbox's namespaces until they end or requests cease to come.

It runs in a fork of the daemon's reaper. `_MonitorProcess` in `overlay` is its only client: a
request is four bytes of length and words joined by NUL, the answer one byte, 0 or the number of an
error. After some seconds without one it writes a file for the next monitor, and ends.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import stat

_NS_GET_USERNS = 0xB701  # ioctl_ns(2)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 1, 2, 4  # mount(2)
_MS_REMOUNT, _MS_BIND, _MNT_DETACH = 32, 4096, 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_EMPTY_FOLDER = b"size=4k,mode=0555"
_GONE = (FileNotFoundError, NotADirectoryError)
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_libc = ctypes.CDLL(None, use_errno=True)


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


def covers_file(empty: bytes) -> bytes:
    """Return the file, next to the empty one, in which an earlier monitor left its covers."""
    return empty + b"-covers"


def serve(
    daemon: socket.socket, pid: int, idle_ms: int, n_numbers: int, empty: bytes, places: list[bytes]
) -> None:
    """Serve until the daemon hangs up, no request comes any more, or the sandbox has ended.

    `mounts` comes with the places to cover, each with what it depends on; `socket` with a family
    and a port, for a TCP socket of the sandbox's network, bound unless the port is 0.
    """
    descriptor = os.pidfd_open(pid)
    file = os.open(covers_file(empty), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    links = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    original = os.stat(empty, follow_symlinks=False)  # noqa: PTH116 - bytes.
    enter(pid, n_numbers)
    covers = Covers(links, places, empty, original)
    covers.load(file)
    poll = select.poll()
    poll.register(daemon, select.POLLIN)
    poll.register(descriptor, select.POLLIN)
    patience_ms = None  # The request for which it was started comes for certain.
    while (ready := dict(poll.poll(patience_ms))) and descriptor not in ready:
        patience_ms = idle_ms
        if not (head := _read(daemon, 4)):
            return
        what, *words = _read(daemon, int.from_bytes(head, "big")).split(b"\0")
        try:
            if what == b"socket":
                _send_socket(daemon, *map(int, words))
                continue
            covers.bring_up_to_date(dict(zip(words[::2], words[1::2], strict=False)))
            daemon.send(b"\0")
        except OSError as exc:
            daemon.send(bytes([exc.errno or 255]))
    if not ready:
        covers.save(file)


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

    def save(self, file: int) -> None:
        """Write the mounts for the next monitor of the same sandbox."""
        rows = [(place, what, b"%d" % number) for place, (what, number) in self._mounts.items()]
        os.ftruncate(file, 0)
        os.pwrite(file, b"\0".join(word for row in rows for word in row), 0)

    def load(self, file: int) -> None:
        """Take over the mounts that an earlier monitor has left."""
        words = os.pread(file, os.fstat(file).st_size, 0).split(b"\0")
        for place, what, number in zip(words[::3], words[1::3], words[2::3], strict=False):
            self._mounts[place] = (what, int(number))

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


def main(root: str, idle_ms: str, n_numbers: str, empty: str, *places: str) -> int:
    """Serve the daemon on descriptor 0; the arguments are those of `serve`."""
    numbers = (int(root), int(idle_ms), int(n_numbers))
    serve(socket.socket(fileno=0), *numbers, os.fsencode(empty), [*map(os.fsencode, places)])
    return 0
