"""Finds what lies in an open folder and belongs to another user or group, such as a container's.

A sandbox knows this process's user and group only, since a user cannot give numbers to others; see
user_namespaces(7). What has no number there, the kernel copies into no layer: it refuses to write
to such a file, and to make a file in such a folder, with EOVERFLOW ("Value too large for defined
data type"; `ovl_copy_up_one` of fs/overlayfs/copy_up.c).
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

_MAX_FOLDERS = 2000
"""So many are looked at, the outermost first: 20 ms."""
_MAX_ENTRIES = 200


def make_owned_folders(folder: Path, layer: Path) -> bool:
    """Make a layer with folders of others as this user's own; return whether there are any.

    Above the open folder, it lets commands make, replace and remove files there. Folders in which
    this user can do none of that are left out. Raises `OSError`.
    """
    has_any = False
    for name in _folders_of_others(folder):
        at, own = folder, layer
        for part in ("", *name.parts):
            at, own = at / part, own / part
            if not own.is_dir():
                own.mkdir(mode=0o700, parents=True)
                shutil.copymode(at, own)
        has_any = True
    return has_any


def _folders_of_others(folder: Path) -> Iterator[Path]:
    queue = deque([Path()])
    n_left = _MAX_FOLDERS
    while queue and n_left:
        name, n_left = queue.popleft(), n_left - 1
        with suppress(OSError), os.scandir(folder / name) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    queue.append(name / entry.name)
                    if _is_of_others(entry):
                        yield name / entry.name


def _is_of_others(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    is_own = (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
    return not is_own and os.access(entry.path, os.W_OK, follow_symlinks=False)


def has_files_of_others(folder: Path) -> bool:
    """Return whether this user can write to a file of others directly in a folder."""
    try:
        return _has_files_of_others(folder, folder.stat().st_mtime_ns)
    except OSError:
        return False


@lru_cache
def _has_files_of_others(folder: Path, _changed_ns: int) -> bool:
    with os.scandir(folder) as entries:
        first = [entry for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False)]
        return any(_is_of_others(entry) for entry in first)
