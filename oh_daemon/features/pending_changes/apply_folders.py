"""Puts a whole folder of a layer, such as `node_modules`, into the open folder, in one step.

The new folder is built next to the old one and takes its place. Files are copied, not
moved: a process in the sandbox may hold one open, and must not write to the disk through it. Of a
layer nothing is trusted, see `layer`. What the disk loses by it goes to a folder aside.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from oh_daemon.features.sandbox.layer import (
    PIECE,
    entries,
    holding,
    is_folder,
    is_opaque,
    is_whiteout,
    link_target,
    open_folder,
    regular,
    status,
    status_below,
    within,
)
from oh_daemon.features.sandbox.storage import discard

_RENAME_EXCHANGE = 2  # renameat2(2)
_FICLONE = 0x40049409  # ioctl_ficlone(2)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_LANDED = ".git"
_libc = ctypes.CDLL(None, use_errno=True)


def apply_folder(
    upper: Path,
    folder: Path,
    name: str,
    temp_dir: Path,
    *,
    is_omitted: Callable[[str], bool] = lambda _name: False,
    confirm: Callable[[], None] = lambda: None,
) -> None:
    """Make the disk have below `folder` what the sandbox has under `name`. Raises `OSError`.

    What was there and is not any more, goes to `aside`, which need not exist. Names below `folder`
    that are omitted stay as they are on the disk. `confirm` is called before anything changes, with
    the copy complete; it may raise.
    """
    parent, _, last = name.rpartition("/")
    temp = f".oh-{secrets.token_hex(8)}.tmp"
    with ExitStack() as stack:
        layer, disk = (stack.enter_context(open_folder(place)) for place in (upper, folder))
        home = stack.enter_context(within(disk, parent))
        with within(layer, parent) as above:
            entry = status(above, last)
            if entry and is_whiteout(above, last, entry):
                confirm()
                _set_aside(folder / name, temp_dir)
                return
        os.mkdir(temp, 0o700, dir_fd=home)
        stack.callback(discard, home, temp, folder / parent / f"{temp}-gone")
        with within(home, temp) as temp_fd:
            _Building(layer, disk, temp_fd, is_omitted).build(name, last)
            confirm()
            if status(home, last) is None:
                os.rename(last, last, src_dir_fd=temp_fd, dst_dir_fd=home)
                return
            _exchange(temp_fd, last, home)
            _drop_what_both_have(temp_fd, home, last)
            if status(temp_fd, last) is not None:
                _set_aside(folder / parent / temp / last, temp_dir)


def _set_aside(place: Path, temp_dir: Path) -> None:
    temp_dir.mkdir(parents=True, exist_ok=True)
    shutil.move(place, temp_dir / f"{place.name}-{secrets.token_hex(4)}")


class _Place(Struct, frozen=True):
    """A folder to be built: its names in the layer and on the disk, None where it has none."""

    layer: str | None
    disk: str | None
    temp_name: str


class _Building:
    """Builds what the sandbox shows; all three are open folders."""

    def __init__(
        self, layer: int, disk: int, temp_fd: int, is_omitted: Callable[[str], bool]
    ) -> None:
        self._layer = layer
        self._disk = disk
        self._temp_fd = temp_fd
        self._is_omitted = is_omitted

    def build(self, name: str, last: str) -> None:
        own, lower = status_below(self._layer, name), status_below(self._disk, name)
        stack = [*self._one(_Place(name, name if lower else None, last), own, lower)]
        folders: list[tuple[str, int]] = []
        while stack:
            place = stack.pop()
            mode = self._build_place(place)
            folders.append((place.temp_name, mode))
            for child, own, lower in self._children(place):
                stack += self._one(child, own, lower)
        # Only now, since a folder that may not be written to cannot be filled.
        for folder_name, mode in reversed(folders):
            with within(self._temp_fd, folder_name) as folder:
                # The folder keeps a setgid bit that it inherited.
                os.fchmod(folder, mode | (os.fstat(folder).st_mode & stat.S_ISGID))

    def _build_place(self, place: _Place) -> int:
        """Make the folder, and return the mode that it gets at last."""
        with holding(self._temp_fd, place.temp_name) as (folder, last):
            os.mkdir(last, 0o700, dir_fd=folder)
        root, name = (self._layer, place.layer) if place.layer else (self._disk, place.disk)
        with within(root, name or "") as folder:
            return stat.S_IMODE(os.fstat(folder).st_mode) & 0o777

    def _children(
        self, place: _Place
    ) -> Iterator[tuple[_Place, os.stat_result | None, os.stat_result | None]]:
        own: dict[str, os.stat_result] = {}
        lower: dict[str, os.stat_result] = {}
        hides, whiteouts = False, set[str]()
        if place.layer is not None:
            with within(self._layer, place.layer) as folder:
                own, hides = entries(folder), is_opaque(folder)
                whiteouts = {
                    last for last, entry in own.items() if is_whiteout(folder, last, entry)
                }
        if place.disk is not None and not hides:
            with within(self._disk, place.disk) as folder:
                lower = entries(folder)
        for last in dict.fromkeys((*own, *lower)):
            above, below = own.get(last), lower.get(last)
            is_omitted = not is_folder(above) and self._is_omitted(f"{place.layer}/{last}")
            if last == _NOT_LANDED or is_omitted:
                above = None
            elif last in whiteouts:
                continue
            names = (f"{place.layer}/{last}", f"{place.disk}/{last}", f"{place.temp_name}/{last}")
            yield (
                _Place(names[0] if above else None, names[1] if below else None, names[2]),
                above,
                below,
            )

    def _one(
        self, place: _Place, own: os.stat_result | None, lower: os.stat_result | None
    ) -> Iterator[_Place]:
        """Put one entry there; yield it if it is a folder, which is still to be built."""
        entry = own or lower
        if entry is None:
            return
        if is_folder(entry):
            has_both = is_folder(lower)
            yield _Place(place.layer, place.disk if has_both else None, place.temp_name)
        elif own is None:
            self._link(place)
        elif stat.S_ISLNK(own.st_mode):
            with holding(self._temp_fd, place.temp_name) as (folder, last):
                os.symlink(link_target(self._layer, place.layer or "") or "", last, dir_fd=folder)
        elif stat.S_ISREG(own.st_mode):
            self._copy(self._layer, place.layer or "", place.temp_name)

    def _link(self, place: _Place) -> None:
        """Give what only the disk has a second name, until the first is gone."""
        name = place.disk or ""
        with (
            holding(self._disk, name) as (source, last),
            holding(self._temp_fd, place.temp_name) as (folder, new),
        ):
            try:
                os.link(last, new, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
            except OSError:
                self._copy(self._disk, name, place.temp_name)

    def _copy(self, root: int, name: str, temp_name: str) -> None:
        with regular(root, name) as source, holding(self._temp_fd, temp_name) as (folder, last):
            entry = os.fstat(source)
            new = os.open(last, _NEW, 0o600, dir_fd=folder)
            try:
                _fill(source, new)
                os.utime(new, ns=(entry.st_atime_ns, entry.st_mtime_ns))
                os.fchmod(new, stat.S_IMODE(entry.st_mode) & 0o777)
            finally:
                os.close(new)


def _fill(source: int, new: int) -> None:
    """Share the blocks where the file system can do that, else copy them."""
    try:
        fcntl.ioctl(new, _FICLONE, source)
    except OSError:
        while os.sendfile(new, source, None, PIECE):
            pass


def _exchange(one: int, name: str, other_fd: int) -> None:
    raw = os.fsencode(name)
    if _libc.renameat2(one, raw, other_fd, raw, _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(number, os.strerror(number), name)
        # A file system without it, such as one of another system: for a moment nothing is there.
        spare = f"{name}.old"
        os.rename(name, spare, src_dir_fd=other_fd, dst_dir_fd=one)
        os.rename(name, name, src_dir_fd=one, dst_dir_fd=other_fd)
        os.rename(spare, name, src_dir_fd=one, dst_dir_fd=one)


def _drop_what_both_have(old: int, new: int, name: str) -> None:
    """Remove from the old tree each file that is the same one in the new tree."""
    if not is_folder(status_below(old, name)):
        return
    stack, folders = [name], list[str]()
    while stack:
        place = stack.pop()
        folders.append(place)
        with within(old, place) as folder:
            entry_by_name = entries(folder)
            for last, entry in entry_by_name.items():
                new_entry = status_below(new, f"{place}/{last}")
                if is_folder(entry):
                    stack.append(f"{place}/{last}")
                elif new_entry and (new_entry.st_dev, new_entry.st_ino) == (
                    entry.st_dev,
                    entry.st_ino,
                ):
                    os.unlink(last, dir_fd=folder)
    for place in reversed(folders):
        with holding(old, place) as (folder, last), suppress(OSError):
            os.rmdir(last, dir_fd=folder)
