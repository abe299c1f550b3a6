"""The files of an overlay's upper layer, as stored and as seen in a sandbox: content, marks.

What runs in a sandbox may have put anything there, so nothing is trusted: no link is followed, only
regular files are opened, and no depth or name is a surprise. Marks of the kernel: overlayfs.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OPAQUE = "user.overlay.opaque"
KEPT = "user.overlay.kept"
"""Ours, and like all in that namespace out of reach for what runs in a sandbox."""
_WHITEOUT, _ORIGIN = "user.overlay.whiteout", "user.overlay.origin"
PIECE = 1 << 18
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read(upper: Path, name: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of the layer. Raises `OSError`."""
    with open_folder(upper) as root, regular(root, str(name)) as descriptor:
        data = bytearray()
        while piece := os.read(descriptor, max_bytes + 1 - len(data)):
            data += piece
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes")
    return bytes(data)


@contextmanager
def open_folder(folder: Path) -> Generator[int]:
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def regular(root: int, name: str) -> Generator[int]:
    """Open a file to read it, if it is a regular one: a pipe or a device is not even opened."""
    place = open_beneath(root, name, _NAME)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", name)
        descriptor = os.open(f"/proc/self/fd/{place}", _READ & ~os.O_NOFOLLOW)
    finally:
        os.close(place)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def within(root: int, name: str) -> Generator[int]:
    """Open a folder below `root`, or itself by the empty name."""
    descriptor = open_beneath(root, name or ".", _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def holding(root: int, name: str) -> Generator[tuple[int, str]]:
    """Open the folder that holds a name, and yield it with the last part of the name."""
    above, _, last = name.rpartition("/")
    with within(root, above) as folder:
        yield folder, last


@contextmanager
def open_named(root: int, name: str) -> Generator[int]:
    """Open what stands under a name, whatever it is, only to refer to it."""
    place = open_beneath(root, name, _NAME)
    try:
        yield place
    finally:
        os.close(place)


def chmod(place: int, mode: int) -> None:
    # Through /proc it works on a descriptor of a folder that may not be read, too.
    os.chmod(f"/proc/self/fd/{place}", mode)  # noqa: PTH101 - no path.


def status(folder: int, name: str) -> os.stat_result | None:
    """Return what stands under a name of an open folder; None if there is nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def status_below(root: int, name: str) -> os.stat_result | None:
    """Return what stands under a name below an open folder; None if that cannot be found."""
    try:
        with holding(root, name) as (folder, last):
            return status(folder, last)
    except OSError:
        return None


def entries(folder: int) -> dict[str, os.stat_result]:
    """Return what an open folder has, without what vanishes meanwhile."""
    entry_by_name: dict[str, os.stat_result] = {}
    with os.scandir(folder) as iterator:
        for entry in iterator:
            with suppress(FileNotFoundError):
                entry_by_name[entry.name] = entry.stat(follow_symlinks=False)
    return entry_by_name


def link_target(root: int, name: str) -> str | None:
    """Return where a link leads; None if it is gone."""
    try:
        place = open_beneath(root, name, _NAME)
    except OSError:
        return None
    try:
        return os.readlink("", dir_fd=place)
    except OSError:
        return None
    finally:
        os.close(place)


def are_equal(layer: int, disk: int, name: str) -> bool:
    """Whether two regular files below open folders have the same content, as far as it is read."""
    try:
        with regular(layer, name) as one, regular(disk, name) as other_file:
            if os.fstat(one).st_size != os.fstat(other_file).st_size:
                return False
            while (piece := os.read(one, PIECE)) == os.read(other_file, PIECE):
                if not piece:
                    return True
    except OSError:
        pass
    return False


def is_folder(entry: os.stat_result | None) -> bool:
    return entry is not None and stat.S_ISDIR(entry.st_mode)


def is_whiteout(folder: int, name: str, entry: os.stat_result) -> bool:
    """Whether the kernel put it there to say that the name is deleted."""
    if stat.S_ISCHR(entry.st_mode):
        return entry.st_rdev == 0
    is_candidate = stat.S_ISREG(entry.st_mode) and entry.st_size == 0
    return is_candidate and _mark(f"/proc/self/fd/{folder}/{name}", _WHITEOUT) is not None


def is_opaque(folder: int) -> bool:
    """Whether what the disk has in an open folder of the layer is not seen."""
    return _mark(folder, OPAQUE) == b"y"


def is_kept(folder: int) -> bool:
    """Whether `take_out` left an open folder in the layer, whose mode is the same since."""
    return _mark(folder, KEPT) == b"%o" % stat.S_IMODE(os.fstat(folder).st_mode)


def is_made(folder: int) -> bool:
    """Whether a command made an open folder, so that the kernel sees nothing below it.

    The kernel marks what it copied, with an empty mark if the file system below has no handles for
    files, as another overlay has none (`ovl_set_origin_fh` of fs/overlayfs/copy_up.c).
    """
    is_copied = _mark(folder, _ORIGIN) is not None
    return is_opaque(folder) or not (is_copied or _mark(folder, KEPT))


def has(root: int, name: str, condition: Callable[[int], bool]) -> bool:
    """Whether something holds of a folder; not if it may not be read."""
    try:
        with within(root, name) as folder:
            return condition(folder)
    except OSError:
        return False


def _mark(place: int | str, name: str) -> bytes | None:
    try:
        if isinstance(place, int):
            return os.getxattr(place, name)
        return os.getxattr(place, name, follow_symlinks=False)
    except OSError:
        return None


def names_below(upper: Path, top: Path, limit: int) -> list[Path]:
    """Return at most so many names of what is no folder, at `top` or below it in the layer."""
    with open_folder(upper) as root:
        return [Path(name) for name in _names(root, str(top), limit)]


def _names(root: int, top: str, limit: int) -> list[str]:
    files: list[str] = []
    stack = [top]
    while stack and len(files) < limit:
        name = stack.pop()
        try:
            with within(root, name) as folder, os.scandir(folder) as items:
                for entry in items:
                    below = f"{name}/{entry.name}"
                    (stack if entry.is_dir(follow_symlinks=False) else files).append(below)
        except NotADirectoryError:
            files.append(name)
        except OSError:
            continue  # It is gone, or may not be read.
    return files[:limit]


def count(root: int, top: str, limit: int) -> int:
    return len(_names(root, top, limit))


def parents(name: str) -> Iterator[str]:
    """Yield the folders that hold a name, the outermost first."""
    at = name.find("/")
    while at > 0:
        yield name[:at]
        at = name.find("/", at + 1)


def folders_above(names: Iterable[str]) -> set[str]:
    """Return every folder that holds one of the names, each of them made once."""
    folders = set[str]()
    for name in names:
        above = name.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


_OPENAT2 = 437  # On every architecture; the bits of RESOLVE_ are from linux/openat2.h.
_BENEATH_NO_LINKS = 0x08 | 0x04 | 0x02
_BENEATH_NO_LINKS_NO_XDEV = _BENEATH_NO_LINKS | 0x01
_READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER_PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class OverlayFolder:
    """One folder as the sandbox has it. Raises `OSError`."""

    def __init__(self, pid: int, folder: Path) -> None:
        """`pid` is that of a process inside."""
        self._pid = pid
        self._folder = folder

    def write(self, name: Path, data: bytes, mode: int = 0o666) -> None:
        """Give a file this content; `name` is relative to the folder."""
        root = open_in(self._pid, self._folder)
        try:
            for folder in reversed(name.parents[:-1]):
                make_folder(root, folder)
            descriptor = open_beneath(root, name, _WRITE, mode)
        finally:
            os.close(root)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - opened above, without following.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            file.write(data)

    def has(self, name: Path) -> bool:
        """Return whether something stands there."""
        root = open_in(self._pid, self._folder)
        try:
            os.close(open_beneath(root, name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError:
            return False
        finally:
            os.close(root)
        return True


def make_folder(root: int, name: Path) -> None:
    """Make a folder below an open one, if it is not there."""
    parent = open_beneath(root, name.parent, _FOLDER_PATH)
    try:
        with suppress(FileExistsError):
            os.mkdir(name.name, dir_fd=parent)
    finally:
        os.close(parent)


def open_in(pid: int, folder: Path) -> int:
    """Open a folder as a process sees it, which may have put a link in the way.

    Raises `OSError`.
    """
    top = os.open(f"/proc/{pid}/root", _FOLDER_PATH)
    try:
        return open_beneath(top, str(folder)[1:] or ".", _READ_FOLDER, how=_BENEATH_NO_LINKS)
    finally:
        os.close(top)


def open_beneath(
    root: int,
    name: Path | str,
    flags: int,
    mode: int = 0,
    *,
    how: int = _BENEATH_NO_LINKS_NO_XDEV,
) -> int:
    """Open what lies below a folder without following a link. Raises `OSError`."""
    how_to = _OpenHow(flags, mode, how)
    raw = os.fsencode(name)
    descriptor = _libc.syscall(_OPENAT2, root, raw, ctypes.byref(how_to), ctypes.sizeof(how_to))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(name))
    return int(descriptor)
