"""What is mounted on this machine, as far as views depend on it; see mountinfo in proc(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class _Mount(NamedTuple):
    device: str
    place: Path
    kind: str


def is_in_memory(place: Path) -> bool:
    """Return whether a folder lies in a tmpfs."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(mount.device == number and mount.kind == "tmpfs" for mount in _mounts())


def mounts_below(folder: Path) -> dict[Path, str]:
    """Return the places below a folder, by its real path, where a file system of a kind is mounted.

    Such a folder can be no lower layer for an ordinary user: without the mount, what it hides would
    be seen (`clone_private_mount` of fs/namespace.c).
    """
    start = str(folder / "_")[:-1]
    found = (mount for mount in _mounts() if str(mount.place).startswith(start))
    return {mount.place: mount.kind for mount in found}


def _mounts() -> Iterator[_Mount]:
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        row = line.split(" ")
        place = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), row[4])
        yield _Mount(row[2], Path(place), row[row.index("-") + 1])
