"""Finds names that look like secrets below a folder, and finds them again at little cost.

A folder is listed again only when the kernel says that a name in it has changed.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oh_daemon.workspace.paths import looks_secret

_LEFT_OUT = frozenset({".git", "node_modules", "site-packages", "dist-packages"})
"""Git needs its own files; and what packages bring along under such names is public."""
_MAX_FOLDERS = 20_000
_SLACK_NS = 20_000_000
"""How far the clock of files may lag behind, so that a change may not show in the times."""


@dataclass(slots=True)
class _Folder:
    """What a folder had when it was listed."""

    changed_ns: int
    number: int
    folders: list[str] = field(default_factory=list[str])
    secrets: list[str] = field(default_factory=list[str])


class SecretNames:
    """One folder and what is below it. Not for several threads at once."""

    def __init__(self, root: Path, *, is_deep: bool = True) -> None:
        self._root = str(root)
        self._is_deep = is_deep
        self._known: dict[str, _Folder] = {}
        self._found: Mapping[str, int] = {}
        self._judged: dict[str, bool] = {}

    def find(self) -> Mapping[str, int]:
        """Return the paths, links too, each with the number of the folder that it is in.

        Of a folder whose whole content counts as secret, only the folder. The uppermost come first;
        in very large trees the deepest are not found.
        """
        if not self._is_unchanged():
            self._found = self._look()
        return self._found

    def _is_unchanged(self) -> bool:
        try:
            return bool(self._known) and all(
                os.lstat(path).st_ctime_ns == known.changed_ns
                for path, known in self._known.items()
            )
        except OSError:
            return False

    def _look(self) -> Mapping[str, int]:
        seen: dict[str, _Folder] = {}
        left = deque([self._root])
        now = time.time_ns()
        while left and len(seen) < _MAX_FOLDERS:
            path = left.popleft()
            try:
                status = os.lstat(path)
                known = self._known.get(path)
                if known is None or known.changed_ns != status.st_ctime_ns:
                    known = self._listed(path, status, now)
            except OSError:
                continue
            seen[path] = known
            left += known.folders
        self._known = seen
        return {path: known.number for known in seen.values() for path in known.secrets}

    def numbers(self, path: str) -> str:
        """Return what changes when a folder above a path was replaced."""
        found: list[str] = []
        while (path := path.rpartition("/")[0]) in self._known:
            found.append(str(self._known[path].number))
        return " ".join(found)

    def _listed(self, path: str, status: os.stat_result, now: int) -> _Folder:
        is_settled = status.st_ctime_ns < now - _SLACK_NS
        found = _Folder(status.st_ctime_ns if is_settled else 0, status.st_ino)
        with os.scandir(path) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if self._is_secret(f"{entry.name}/x" if is_folder else entry.name):
                    found.secrets.append(entry.path)
                elif is_folder and self._is_deep and entry.name not in _LEFT_OUT:
                    found.folders.append(entry.path)
        return found

    def _is_secret(self, name: str) -> bool:
        known = self._judged.get(name)
        if known is None:
            known = self._judged[name] = looks_secret(name)
        return known
