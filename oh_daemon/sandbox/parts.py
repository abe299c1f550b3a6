"""What a view has of a folder with mounts below: overlays of some folders, the rest as it is.

The kernel covers no such folder (see `mounts_below`), so one with the same names is put there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oh_daemon.sandbox.masks import NEEDED
from oh_daemon.sandbox.mounted import mounts_below

_LAYERED = ("btrfs", "ext4", "f2fs", "tmpfs", "xfs")
"""File systems that certainly can be a lower layer; of others, such as FUSE's, not all can."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a view has in the place of folders that it cannot cover."""

    layered: list[Path] = field(default_factory=list[Path])
    """Folders that can be covered."""
    shown: list[Path] = field(default_factory=list[Path])
    """Files and other mounted folders, which are seen as they are."""
    needed: list[Path] = field(default_factory=list[Path])
    """What nothing starts without, in a folder that is empty else."""


def take_apart(
    parts: Parts, folder: Path, names: Path, others: Sequence[Path], *, is_empty: bool
) -> None:
    """Add what a folder has, and make its names in the folder `names`, which no command can change.

    Nothing of it is seen if it `is_empty`. The `others` are covered on their own.
    """
    shutil.rmtree(names, ignore_errors=True)
    if is_empty:
        names.mkdir(mode=0o700)
        parts.needed.extend(path for path in NEEDED if _innermost(path, others) == folder)
        return
    mounts = mounts_below(folder)
    for path, name in _walk(folder, names, mounts):
        if not name.is_dir() or mounts.get(path, _LAYERED[0]) not in _LAYERED:
            parts.shown.append(path)
        elif path not in others:
            parts.layered.append(path)


def name_of(folder: Path) -> str:
    """Return what tells the layers of a folder from those of others; commands cannot choose it."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def _innermost(path: Path, folders: Sequence[Path]) -> Path | None:
    return max(filter(path.is_relative_to, folders), key=lambda at: len(at.parts), default=None)


def _walk(folder: Path, names: Path, mounts: Collection[Path]) -> Iterator[tuple[Path, Path]]:
    """Make names for folders, files and links; yield each place that is no link, with its name."""
    names.mkdir(mode=0o700)
    for entry in os.scandir(folder):
        path, name = Path(entry.path), names / entry.name
        if entry.is_symlink():
            name.symlink_to(path.readlink())
        elif entry.is_file():
            name.touch()
            yield path, name
        elif entry.is_dir() and any(path in at.parents for at in mounts):
            yield from _walk(path, name, mounts)
        elif entry.is_dir():
            name.mkdir()
            yield path, name
