"""What the user has decided about folders, and what was spent today. One small file, mode 0600.

It is in the user's own configuration, keyed by real path and git root, never in a repository: a
folder must not be able to declare itself trusted.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import orjson

from oh_daemon.protocol.errors import ReadOnlyError
from oh_daemon.protocol.problems import Problem
from oh_daemon.system.private_files import CachedFile, open_private, parse_object, replace_file

Trust = Literal["full", "readOnly", "none"]
_SPENT, _ON = "spent", "on"
"""The keys of the only entry that is not about a folder."""


class UserState:
    """Safe from any thread, and when other daemons use the same file.

    A folder that is given as text is taken for its real path.
    Changes are made under a file lock, and the file is replaced as a whole, so readers see either
    the old state or the new.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = CachedFile(path, _read)
        self._lock = threading.Lock()

    def trust(self, folder: Path | str) -> Trust | None:
        """Return what was decided for this folder, or None."""
        return self._folder(folder).get("trust")

    def trusted_folders(self) -> dict[str, Trust]:
        return {
            key.split("\n")[0]: entry["trust"]
            for key, entry in self._load().items()
            if "trust" in entry
        }

    def set_trust(self, folder: Path | str, trust: Trust) -> None:
        """Set the trust of a folder. Raises `ReadOnlyError` when the file cannot be written."""
        self._change(_key(folder), "trust", lambda _before: trust)

    def runs(self, folder: Path | str) -> dict[str, bool] | None:
        """Return, by hash, what may run by itself there; None if that was never decided."""
        return self._folder(folder).get("runs")

    def add_runs(self, folder: Path | str, verdicts: Mapping[str, bool]) -> None:
        def add(before: dict[str, bool] | None) -> dict[str, bool]:
            return {**(before or {}), **verdicts}

        self._change(_key(folder), "runs", add)

    def forget_runs(self, folder: Path | str) -> None:
        if self.runs(folder) is not None:
            self._change(_key(folder), "runs", lambda _before: None)

    def grants(self, folder: Path | str) -> Collection[str]:
        return self._folder(folder).get("grants", ())

    def add_grant(self, folder: Path | str, key: str) -> None:
        self._change(_key(folder), "grants", lambda before: sorted({*(before or ()), key}))

    def spend(self, amount_usd: float) -> float:
        """Add to what was spent today, by this machine's clock, and return the sum."""
        today = datetime.now(UTC).astimezone().date().isoformat()
        spending = self._load().get(_SPENT, {}).get(_ON, {})
        if not amount_usd:
            return spending.get(today, 0.0)

        def add(before: dict[str, float] | None) -> dict[str, float]:
            nonlocal spending
            spending = {today: (before or {}).get(today, 0.0) + amount_usd}
            return spending

        self._change(_SPENT, _ON, add)
        return spending[today]

    def _folder(self, folder: Path | str) -> dict[str, Any]:
        return self._load().get(_key(folder), {})

    @property
    def problem(self) -> Problem | None:
        """What to tell the user about a file that cannot be read, if it is so."""
        if self._file.value() is not None:
            return None
        return Problem("decisions", "user", str(self._path), (str(self._damaged_path),))

    def _load(self) -> Mapping[str, dict[str, Any]]:
        # An unreadable file counts as nothing decided, which is the stricter choice.
        return self._file.value() or {}

    @property
    def _damaged_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.damaged")

    def _change(self, key: str, name: str, change: Callable[[Any], object]) -> None:
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                # Another daemon of this user may be changing the file at the same time.
                lock = open_private(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    state = _read(self._path)
                    if state is None:
                        self._path.rename(self._damaged_path)
                        state = {}
                    entry = state.setdefault(key, {})
                    entry[name] = change(entry.get(name))
                    replace_file(self._path, orjson.dumps(state, option=orjson.OPT_INDENT_2))
                finally:
                    os.close(lock)
            except OSError as exc:
                raise ReadOnlyError(f"cannot write {str(self._path)!r}: {exc.strerror}") from exc


def _read(path: Path) -> dict[str, dict[str, Any]] | None:
    """Return what the file holds, nothing if there is none, and None if it is damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError:
        return None
    return parse_object(data) or ({} if data.strip() == b"{}" else None)


def _key(folder: Path | str) -> str:
    """Return real path and git root, so a moved repository, or a new one inside, asks again."""
    # Text, not `Path`, and a call that raises nothing: it is looked up many times in each step.
    real = place = folder if isinstance(folder, str) else os.path.realpath(folder)
    while not os.access(f"{place}/.git", os.F_OK):
        place, last = place.rpartition("/")[0], place
        if not last:
            return f"{real}\n"
    return f"{real}\n{place or '/'}"
