"""Removes trees that hostile programs have made: of any depth, and with folders of any mode."""

from __future__ import annotations

import os
from pathlib import Path

from oh_daemon.sandbox.layer import chmod, entries, is_folder, named, opened, within


def discard(parent: int, name: str, trash: Path) -> None:
    """Remove a tree of any depth: each folder is moved up before it is emptied."""
    trash.mkdir(mode=0o700, exist_ok=True)
    with opened(trash) as heap:
        left, n_moved = ["0"], 0
        _move(parent, name, heap, "0")
        while left:
            folder_name = left.pop()
            with within(heap, folder_name) as folder:
                for child, found in entries(folder).items():
                    if is_folder(found):
                        n_moved += 1
                        _move(folder, child, heap, str(n_moved))
                        left.append(str(n_moved))
                    else:
                        os.unlink(child, dir_fd=folder)
            os.rmdir(folder_name, dir_fd=heap)
    trash.rmdir()


def _move(folder: int, name: str, heap: int, new: str) -> None:
    with named(folder, name) as place:
        chmod(place, 0o700)
    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=heap)
