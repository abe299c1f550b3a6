"""Fuzzy matching of file names: finds a file that a person mentions by a few of its letters."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

from oh_daemon.core.cancel import CancelToken
from oh_daemon.workspace.listing import list_names
from oh_daemon.workspace.spawner import Spawner

_FRESH_S = 2.0

Rank = tuple[int, int, int]
"""Lower is better: the kind of match, its spread in letters, the length of the name."""


class Query:
    """Matches names with these letters in order, in any case; a path's last part ranks higher."""

    def __init__(self, text: str) -> None:
        self._text = "".join(text.lower().split())
        rest = (f"[^{re.escape(c)}]*{re.escape(c)}" for c in self._text[1:])
        self._fuzzy = re.compile("".join([re.escape(self._text[:1]), *rest]), re.DOTALL)

    def rank(self, name: str) -> Rank | None:
        """Return how well the name matches, None when it does not."""
        name, text = name.lower(), self._text
        found = self._fuzzy.search(name)
        if found is None:
            return None
        last = name[name.rfind("/") + 1 :]
        fails = (
            text not in {last, last.partition(".")[0] or last},
            not last.startswith(text),
            text not in last,
            text not in name,
        )
        found = self._fuzzy.search(last) or found
        return (sum(fails), len(found[0]), len(name))


class FileNames:
    """The names of a folder's files that git does not ignore. Safe from any thread."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[float, list[str]]] = {}

    def of(self, folder: Path, cancel: CancelToken) -> list[str]:
        """Return the names relative to the folder, which may be seconds old. Raises `Cancelled`."""
        began = time.monotonic()
        with self._lock:
            stale_at, names = self._known.get(folder, (0.0, []))
        if began < stale_at:
            return names
        names = list_names(folder, self._spawner, cancel)
        now = time.monotonic()
        # A person who types asks again with each letter; list for a tenth of the time at most.
        stale_at = now + max(_FRESH_S, 10 * (now - began))
        with self._lock:
            self._known[folder] = (stale_at, names)
        return names
