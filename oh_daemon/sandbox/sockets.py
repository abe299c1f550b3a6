"""Where programs of this machine listen by path, so that a view can hide it.

A read-only mount keeps nobody from connecting. Below an overlay nothing can be connected to.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_TABLE = Path("/proc/net/unix")
"""Each socket, with its path last; see proc_net(5). Those of other networks are not in it."""
_N_PARTS_OF_SYSTEM = 2
"""Folders such as `/etc` and `/var` have more in them than sockets."""


def to_hide(
    covered: Sequence[Path], hidden: Sequence[Path], shown: Sequence[Path] = ()
) -> tuple[set[Path], set[Path]]:
    """Return folders of sockets, and sockets in folders that must be seen.

    Nothing is hidden below one of the places `covered` by overlays, unless it is `shown` there as
    it is, or `hidden` anyway.
    """
    folders, single = set[Path](), set[Path]()
    for path in _reachable():
        is_shown = any(map(path.is_relative_to, shown))
        if any(map(path.is_relative_to, hidden if is_shown else (*covered, *hidden))):
            continue
        folder = path.parent
        holds_more = any(place.is_relative_to(folder) for place in covered)
        if holds_more or len(folder.parts) <= _N_PARTS_OF_SYSTEM:
            single.add(path)
        else:
            folders.add(folder)
    return folders, single


def _reachable() -> Iterator[Path]:
    for line in _TABLE.read_text("utf-8", "surrogateescape").splitlines()[1:]:
        name = line.split(maxsplit=7)[7:]
        if name and name[0].startswith("/"):
            with suppress(OSError):  # It is gone, or cannot be reached by this user.
                path = Path(name[0]).resolve(strict=True)
                if stat.S_ISSOCK(path.lstat().st_mode):
                    yield path
