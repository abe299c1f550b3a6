"""Reads mounts and a sandbox's processes from /proc: the files they hold, and their ports.

All of it is read from files below /proc; see proc(5).
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from oh_daemon.system import reaper

_CHANGED = select.POLLERR | select.POLLPRI


class _Mount(NamedTuple):
    device: str
    root: Path
    """The folder of the file system that is mounted."""
    place: Path
    kind: str


class _Table(Struct):
    """The mounts of one process, read again only when poll(2) says that they have changed.

    This is asked at each command and by each `daemon/status`. While a hundred conversations work,
    each system call is a wait for the interpreter, so it is one, and no lock is held across it.
    """

    _descriptor: int
    _mounts: Sequence[_Mount] = ()

    def __post_init__(self) -> None:
        self._mounts = self._read()

    def mounts(self) -> Sequence[_Mount]:
        """Return the same object as long as nothing has changed."""
        news = select.poll()  # Two threads must not use one at the same time.
        news.register(self._descriptor, _CHANGED)
        if news.poll(0):
            self._mounts = self._read()
        return self._mounts

    def _read(self) -> Sequence[_Mount]:
        pieces, at = list[bytes](), 0
        while piece := os.pread(self._descriptor, 1 << 16, at):
            pieces.append(piece)
            at += len(piece)
        text = b"".join(pieces).decode(errors="surrogateescape")
        return tuple(map(_parse_mount, text.splitlines()))


_OPENING = threading.Lock()


def mounts() -> Sequence[object]:
    """Return the mounts: the same object as long as nothing has changed."""
    return _table().mounts()


def is_in_memory(place: Path) -> bool:
    """Return whether a folder lies in a tmpfs."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(mount.device == number and mount.kind == "tmpfs" for mount in _table().mounts())


def mounts_below(folder: Path) -> dict[Path, str]:
    """Return the places below a folder, by its real path, where a file system of a kind is mounted.

    Such a folder can be no lower layer for an ordinary user: without the mount, what it hides would
    be seen (`clone_private_mount` of fs/namespace.c).
    """
    start = str(folder / "_")[:-1]
    inner_mounts = (mount for mount in _table().mounts() if str(mount.place).startswith(start))
    return {mount.place: mount.kind for mount in inner_mounts}


def other_names(path: Path) -> Iterator[Path]:
    """Yield the other real paths of a file or folder: where its file system is mounted once more.

    `/mnt/home/ann/.ssh` for `/home/ann/.ssh` after `mount --bind /home /mnt/home`.
    """
    table = _table().mounts()
    own = max((m for m in table if path.is_relative_to(m.place)), key=lambda m: len(m.place.parts))
    others = [m for m in table if m.device == own.device and m.place != own.place]
    inner = own.root / path.relative_to(own.place) if others else path
    for mount in others:
        if inner.is_relative_to(mount.root):
            name = mount.place / inner.relative_to(mount.root)
            with suppress(OSError):  # It is not there, or another mount hides it.
                if name.samefile(path):
                    yield name


def _table() -> _Table:
    # Another process, made by a fork, must not take the news of this one.
    with _OPENING:
        return _table_of(os.getpid())


@cache
def _table_of(_pid: int) -> _Table:
    return _Table(os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC))


def _parse_mount(line: str) -> _Mount:
    row = line.split(" ")
    root, place = (
        Path(re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), name)) for name in row[3:5]
    )
    return _Mount(row[2], root, place, row[row.index("-") + 1])


_DELETED = " (deleted)"
_WRITES = (os.O_WRONLY, os.O_RDWR)


def held_open(root_pid: int, folder: Path) -> frozenset[Path]:
    """Return the files that a process can write to, relative to the folder; some may be gone."""
    paths: set[str] = set()
    for pid in _family(root_pid):
        paths |= {name for name, is_writable in _mapped_files(pid) if is_writable}
        paths |= {name for number, name in _open(pid) if is_for_writing(open_flags(pid, number))}
    return _below(folder, paths)


class OverlayProcess(Struct, frozen=True):
    """An open folder as a running sandbox has it."""

    pid: int
    """That of a process inside."""
    in_use: frozenset[Path]
    """What a process is in or holds, also if it is deleted since, and the folders above that."""


def find_overlay_process(root_pid: int, folder: Path) -> OverlayProcess:
    """Look at all processes of a sandbox."""
    paths: set[str] = set()
    for pid in _family(root_pid):
        paths |= {name for name, _ in _mapped_files(pid)} | {name for _, name in _open(pid)}
        for place in ("cwd", "root", "exe"):
            with suppress(OSError):
                paths.add(str(Path(f"/proc/{pid}/{place}").readlink()))
    below = _below(folder, paths | {name.removesuffix(_DELETED) for name in paths})
    in_use = below.union(*(name.parents for name in below))
    return OverlayProcess(root_pid, in_use)


def _family(root_pid: int) -> set[int]:
    return {root_pid} | reaper.descendants({root_pid}, reaper.processes())


def _open(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the number and the name of each descriptor."""
    for number in descriptors(pid):
        with suppress(OSError):
            yield number, str(Path(f"/proc/{pid}/fd/{number}").readlink())


def process_numbers() -> list[int]:
    """Return the numbers of all processes that this one can see; none without /proc."""
    try:
        return [*map(int, filter(str.isdigit, os.listdir("/proc")))]  # noqa: PTH208 - as in `reaper`.
    except OSError:
        return []


def descriptors(pid: int) -> list[str]:
    """Return the numbers of a process's open files; none if it belongs to another user."""
    try:
        return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - as in `reaper`.
    except OSError:
        return []


def open_flags(pid: int, number: str) -> int:
    """Return the flags of open(2) with which a process has a file open; 0 if it is closed."""
    try:
        facts = Path(f"/proc/{pid}/fdinfo/{number}").read_bytes()
    except OSError:
        return 0
    flags = re.search(rb"^flags:\s*([0-7]+)", facts, re.MULTILINE)
    return int(flags[1], 8) if flags else 0


def is_for_writing(flags: int) -> bool:
    """Return whether flags of open(2) let a process write."""
    return flags & os.O_ACCMODE in _WRITES


def _mapped_files(pid: int) -> Iterator[tuple[str, bool]]:
    """Yield the name of each file in memory, and whether what is written there reaches it."""
    try:
        rows = Path(f"/proc/{pid}/maps").read_bytes().splitlines()
    except OSError:
        return
    for row in rows:
        fields = row.split(maxsplit=5)
        if fields[5:]:
            # The only character that the kernel escapes there.
            yield os.fsdecode(fields[5].replace(rb"\012", b"\n")), fields[1][1:4:2] == b"ws"


def _below(folder: Path, names: set[str]) -> frozenset[Path]:
    top = f"{folder}/"
    return frozenset(Path(name[len(top) :]) for name in names if name.startswith(top))


_LISTENS = "0A"
"""TCP_LISTEN of include/net/tcp_states.h."""


def listening_ports(root: int) -> frozenset[int]:
    """Return them for the network of a process; none when it has ended."""
    return frozenset(port for table in ("tcp", "tcp6") for port in _ports_in(root, table))


def _ports_in(root: int, table: str) -> Iterator[int]:
    with suppress(OSError):
        for line in Path(f"/proc/{root}/net/{table}").read_text("ascii").splitlines()[1:]:
            _, local, _, state = line.split(maxsplit=4)[:4]
            if state == _LISTENS:
                yield int(local.rpartition(":")[2], 16)
