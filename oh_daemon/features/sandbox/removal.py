"""Takes names out of a layer, so that the disk is seen there again.

A running sandbox keeps what its processes hold: of such a file it would show the removed content
for ever, or fail with ESTALE. So files go through the mount first, folders that the disk has stay,
and what is in use is made equal to the disk instead.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from pathlib import Path

from oh_daemon.features.sandbox.layer import (
    KEPT,
    OPAQUE,
    PIECE,
    are_equal,
    chmod,
    entries,
    folders_above,
    has,
    holding,
    is_folder,
    is_kept,
    is_made,
    is_opaque,
    is_whiteout,
    link_target,
    make_folder,
    open_beneath,
    open_folder,
    open_in,
    open_named,
    parents,
    regular,
    status,
    status_below,
    within,
)
from oh_daemon.features.sandbox.storage import discard
from oh_daemon.system.proc import OverlayProcess

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_out(
    upper: Path, folder: Path, names: Iterable[Path], processes: OverlayProcess | None = None
) -> None:
    """Remove names from the layer; `OverlaySandbox.refresh` must follow. Raises `OSError`.

    A tree that the disk does not have goes as a whole. A folder that both have loses its marks and
    its mode, what else is in it stays. `processes` is None when nothing runs in the sandbox.
    """
    with ExitStack() as stack:
        layer, disk = (
            stack.enter_context(open_folder(upper)),
            stack.enter_context(open_folder(folder)),
        )
        mount = open_in(processes.pid, folder) if processes else None
        if mount is not None:
            stack.callback(os.close, mount)
        targets = {str(name) for name in names}
        trash = upper.with_name(f"{upper.name}-gone")
        taking = _Removal(layer, disk, mount, trash, targets)
        in_use = {str(name) for name in processes.in_use} if processes else set[str]()
        staying = {name for name in targets if taking.is_staying(name, in_use)}
        for name in sorted(staying):
            taking.make_equal(name)
        folders = folders_above(targets)
        for above, group in groupby(_deepest_first(targets - staying), _above):
            with suppress(FileNotFoundError, NotADirectoryError):
                folders |= taking.remove(above, [*group])
        for name in _deepest_first(folders - staying):
            with suppress(FileNotFoundError, NotADirectoryError):
                taking.tidy(name, is_in_use=name in in_use)


def _deepest_first(names: Iterable[str]) -> list[str]:
    """Return the names so that those of one folder follow each other."""
    return sorted(names, key=lambda name: (name.count("/"), name), reverse=True)


def _above(name: str) -> str:
    return name.rpartition("/")[0]


class _Removal:
    """One run of `take_out`, on open folders: `mount` is the sandbox's own, if there is one."""

    def __init__(
        self, layer: int, disk: int, mount: int | None, trash: Path, targets: Collection[str]
    ) -> None:
        self._layer = layer
        self._disk = disk
        self._mount = mount
        self._trash = trash
        self._targets = targets
        self._uncovered_names = set[str]()

    def is_staying(self, name: str, in_use: Collection[str]) -> bool:
        """Whether a process holds the file, or is in a folder that is not the disk's any more."""
        own, lower = self._both(name) if name in in_use else (None, None)
        if own and lower and stat.S_ISREG(lower.st_mode):
            # A character device is a whiteout: also who holds a deleted file holds its place.
            return stat.S_ISREG(own.st_mode) or stat.S_ISCHR(own.st_mode)
        return any(up in in_use and self._is_replaced(up) for up in parents(name))

    def _both(self, name: str) -> tuple[os.stat_result | None, os.stat_result | None]:
        return status_below(self._layer, name), status_below(self._disk, name)

    def _is_replaced(self, name: str) -> bool:
        """Whether commands deleted a folder of the disk, or made one in its place."""
        own, lower = self._both(name)
        if own is None or not is_folder(lower):
            return False
        return not is_folder(own) or has(self._layer, name, is_made)

    def make_equal(self, name: str) -> None:
        """Give the sandbox what the disk has, through its mount."""
        if self._mount is None:
            return
        own, lower = self._both(name)
        kinds = {stat.S_IFMT(entry.st_mode) for entry in (own, lower) if entry}
        if own and (lower is None or kinds not in ({stat.S_IFREG}, {stat.S_IFDIR})):
            with suppress(OSError), holding(self._mount, name) as (folder, last):
                _unlink(folder, last)
        if lower is not None:
            for folder in reversed(Path(name).parents[:-1]):
                make_folder(self._mount, folder)
            self._put_entry(self._mount, name, lower)

    def _put_entry(self, mount: int, name: str, lower: os.stat_result) -> None:
        if stat.S_ISLNK(lower.st_mode):
            _link(mount, name, link_target(self._disk, name) or "")
            return
        if stat.S_ISDIR(lower.st_mode):
            make_folder(mount, Path(name))
        elif stat.S_ISREG(lower.st_mode) and not are_equal(self._layer, self._disk, name):
            self._copy(mount, name)
        _match_mode(mount, name, lower)

    def _copy(self, mount: int, name: str) -> None:
        with regular(self._disk, name) as source:
            place = open_beneath(mount, name, _WRITE, 0o600)
            with open(place, "wb") as file:  # noqa: PTH123 - opened above, without following.
                while piece := os.read(source, PIECE):
                    file.write(piece)

    def _uncover(self, name: str) -> None:
        """Turn what hides a whole folder above into marks for each name in it but the wanted."""
        for above in parents(name):
            if above not in self._uncovered_names and is_folder(status_below(self._disk, above)):
                self._uncover_folder(above)
            self._uncovered_names.add(above)

    def _uncover_folder(self, name: str) -> None:
        with holding(self._layer, name) as (folder, last):
            node = status(folder, last)
            if node is None or not (is_folder(node) or is_whiteout(folder, last, node)):
                return
            if not is_folder(node):
                os.unlink(last, dir_fd=folder)
                os.mkdir(last, 0o700, dir_fd=folder)
        with within(self._layer, name) as folder, _writable(folder):
            if not is_folder(node) or is_opaque(folder):
                self._hide_each(name, folder)
                with suppress(OSError):
                    os.removexattr(folder, OPAQUE)
        if not is_folder(node) and (lower := status_below(self._disk, name)):
            _match_mode(self._layer, name, lower)

    def _hide_each(self, name: str, folder: int) -> None:
        with within(self._disk, name) as below:
            lower = entries(below)
        for child, entry in lower.items():
            own = status(folder, child)
            if own is None and f"{name}/{child}" not in self._targets:
                os.mknod(child, stat.S_IFCHR, 0, dir_fd=folder)
            elif is_folder(own) and is_folder(entry):
                with within(folder, child) as deeper:
                    os.setxattr(deeper, OPAQUE, b"y")

    def remove(self, above: str, names: Sequence[str]) -> set[str]:
        """Remove names of one folder; return those that stay, since both have a folder there."""
        self._uncover(names[0])
        shared_folders = set[str]()
        with ExitStack() as stack:
            folder, mount = stack.enter_context(within(self._layer, above)), None
            stack.enter_context(_writable(folder))
            if self._mount is not None:
                with suppress(OSError):
                    mount = stack.enter_context(within(self._mount, above))
            for name, last in ((name, name.rpartition("/")[2]) for name in names):
                entry = status(folder, last)
                if is_folder(entry) and is_folder(status_below(self._disk, name)):
                    shared_folders.add(name)
                    continue
                if mount is not None and entry is not None:
                    _unlink(mount, last)
                entry_left = status(folder, last)
                if is_folder(entry_left):
                    discard(folder, last, self._trash)
                elif entry_left is not None:
                    with suppress(FileNotFoundError):
                        os.unlink(last, dir_fd=folder)
        return shared_folders

    def tidy(self, name: str, *, is_in_use: bool) -> None:
        """Remove a folder that is left empty, or note that it is only there for the kernel."""
        lower = status_below(self._disk, name)
        if lower is not None and is_folder(lower):
            if not is_folder(status_below(self._layer, name)):
                return
            if not (is_in_use and self._is_replaced(name) and name not in self._targets):
                self._keep(name, lower)
            return
        if self._mount is not None:
            with suppress(OSError), holding(self._mount, name) as (folder, last):
                os.rmdir(last, dir_fd=folder)
                return  # The layer has lost it as well.
        with holding(self._layer, name) as (folder, last), _writable(folder), suppress(OSError):
            os.rmdir(last, dir_fd=folder)

    def _keep(self, name: str, lower: os.stat_result) -> None:
        with open_named(self._layer, name) as place:
            is_ours = name in self._targets or has(self._layer, name, is_kept)
            mode = stat.S_IMODE(lower.st_mode)
            if is_ours:
                _match_mode(self._layer if self._mount is None else self._mount, name, lower)
            if stat.S_IMODE(os.fstat(place).st_mode) == mode:
                os.setxattr(f"/proc/self/fd/{place}", KEPT, b"%o" % mode)
            if name in self._targets:
                with suppress(OSError):
                    os.removexattr(f"/proc/self/fd/{place}", OPAQUE)


def _match_mode(root: int, name: str, lower: os.stat_result) -> None:
    with open_named(root, name) as place:
        chmod(place, stat.S_IMODE(lower.st_mode))


def _unlink(folder: int, name: str) -> None:
    """Let a running sandbox forget a name of its folder; a folder only when it is empty."""
    with suppress(OSError):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            os.rmdir(name, dir_fd=folder)


def _link(mount: int, name: str, leads_to: str) -> None:
    with holding(mount, name) as (folder, last):
        os.symlink(leads_to, last, dir_fd=folder)


@contextmanager
def _writable(folder: int) -> Generator[None]:
    """Let names be removed from a folder whatever its mode, which is the same afterwards."""
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    if mode & stat.S_IRWXU == stat.S_IRWXU:
        yield
        return
    chmod(folder, mode | stat.S_IRWXU)
    try:
        yield
    finally:
        chmod(folder, mode)
