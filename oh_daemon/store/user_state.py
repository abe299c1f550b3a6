"""What the user has decided about folders: trust, and lasting grants. One small file, 0600.

It lies in the user's own configuration, keyed by real path and git root, never in a repository: a
folder must not be able to trust itself.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import orjson

from oh_daemon.contract.errors import ReadOnlyError
from oh_daemon.store.private_files import replace_file

Trust = Literal["full", "readOnly", "none"]


class UserState:
    """Thread-safe within a process; the file is replaced whole, so readers see old or new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def trust(self, folder: Path) -> Trust | None:
        """What was decided for this folder, or None."""
        return self._folder(folder).get("trust")

    def trusted_folders(self) -> dict[str, Trust]:
        return {
            key.split("\n")[0]: entry["trust"]
            for key, entry in self._load().items()
            if "trust" in entry
        }

    def set_trust(self, folder: Path, trust: Trust) -> None:
        """Raises `ReadOnlyError` when the file cannot be written."""
        self._change(folder, "trust", lambda _before: trust)

    def is_granted(self, folder: Path, key: str) -> bool:
        return key in self._folder(folder).get("grants", ())

    def add_grant(self, folder: Path, key: str) -> None:
        self._change(folder, "grants", lambda before: sorted({*(before or ()), key}))

    def _folder(self, folder: Path) -> dict[str, Any]:
        return self._load().get(_key(folder), {})

    def _load(self) -> dict[str, dict[str, Any]]:
        # Anything unreadable counts as nothing decided: the stricter reading.
        with contextlib.suppress(OSError, ValueError):
            loaded = orjson.loads(self._path.read_bytes())
            if isinstance(loaded, dict):
                return loaded  # pyright: ignore[reportUnknownVariableType] - our own file, our shape.
        return {}

    def _change(self, folder: Path, name: str, change: Callable[[Any], object]) -> None:
        with self._lock:
            state = self._load()
            entry = state.setdefault(_key(folder), {})
            entry[name] = change(entry.get(name))
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                replace_file(self._path, orjson.dumps(state, option=orjson.OPT_INDENT_2))
            except OSError as exc:
                raise ReadOnlyError(f"cannot write {str(self._path)!r}: {exc.strerror}") from exc


def _key(folder: Path) -> str:
    """Real path and git root: a repository that moves, or a new one inside, asks again."""
    real = folder.resolve()
    root = next((p for p in (real, *real.parents) if (p / ".git").exists()), None)
    return f"{real}\n{root or ''}"
