"""The folders from one up to the top of its repository."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def up_to_repository(folder: Path) -> tuple[Path, ...]:
    """Return the folder and those above it, up to the top of its repository if it is in one."""
    n_above, place = 0, str(folder)
    while not os.access(f"{place}/.git", os.F_OK):
        place = os.path.dirname(place)  # noqa: PTH120 - looked up at each step.
        if n_above == len(folder.parents) or not _is_closed(place):
            return (folder,)
        n_above += 1
    return (folder, *folder.parents[:n_above])


def _is_closed(folder: str) -> bool:
    """Return whether nobody else can make this folder a repository with skills, as in /tmp."""
    try:
        status = os.stat(folder)  # noqa: PTH116 - as above.
    except OSError:
        return False
    return status.st_uid in {os.geteuid(), 0} and not status.st_mode & stat.S_IWOTH
