"""Which files of an open folder the processes of a view hold, as /proc tells; see proc(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from oh_daemon.workspace import reaper

_DELETED = " (deleted)"
_WRITES = (os.O_WRONLY, os.O_RDWR)


def held_open(root_pid: int, folder: Path) -> frozenset[Path]:
    """Return the files that a process can write to, relative to the folder; some may be gone."""
    found: set[str] = set()
    for pid in _family(root_pid):
        found |= {name for name, is_writable in _mapped(pid) if is_writable}
        found |= {name for number, name in _open(pid) if _is_written(pid, number)}
    return _below(folder, found)


@dataclass(frozen=True, slots=True)
class Live:
    """An open folder as a running view has it."""

    pid: int
    """That of a process inside."""
    in_use: frozenset[Path]
    """What a process is in or holds, also if it is deleted since, and the folders above that."""


def live(root_pid: int, folder: Path) -> Live:
    """Look at all processes of a view."""
    found: set[str] = set()
    for pid in _family(root_pid):
        found |= {name for name, _ in _mapped(pid)} | {name for _, name in _open(pid)}
        for place in ("cwd", "root", "exe"):
            with suppress(OSError):
                found.add(str(Path(f"/proc/{pid}/{place}").readlink()))
    below = _below(folder, found | {name.removesuffix(_DELETED) for name in found})
    in_use = below.union(*(name.parents for name in below))
    return Live(root_pid, in_use)


def _family(root_pid: int) -> set[int]:
    return {root_pid} | reaper.descendants({root_pid}, reaper.processes())


def _open(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the number and the name of each descriptor."""
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - as in `reaper`.
            with suppress(OSError):
                yield number, str(Path(f"/proc/{pid}/fd/{number}").readlink())


def _is_written(pid: int, number: str) -> bool:
    try:
        told = Path(f"/proc/{pid}/fdinfo/{number}").read_bytes()
    except OSError:
        return False
    flags = re.search(rb"^flags:\s*([0-7]+)", told, re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE in _WRITES


def _mapped(pid: int) -> Iterator[tuple[str, bool]]:
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
