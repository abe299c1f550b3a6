"""What the daemon must remember and nobody else may read: a file per name, in the user's state."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import orjson

from oh_daemon.contract.errors import DaemonError
from oh_daemon.store.private_files import (
    disk_error,
    private_folder,
    read_private,
    replace_file,
)


class KeptSecrets:
    """A file is replaced whole, so several daemons may share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, default: dict[str, Any]) -> dict[str, Any]:
        """What was saved; `default` when that is nothing or cannot be read."""
        with (
            contextlib.suppress(OSError, ValueError, DaemonError),
            read_private(self._file(name)) as f,
        ):
            loaded = orjson.loads(f.read())
            if isinstance(loaded, dict):
                return loaded  # pyright: ignore[reportUnknownVariableType] - our own file, our shape.
        return default

    def __setitem__(self, name: str, value: dict[str, Any]) -> None:
        """Raises `ReadOnlyError` or `StorageError`."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            private_folder(self._folder)
            replace_file(self._file(name), orjson.dumps(value))
        except OSError as exc:
            raise disk_error(self._folder, exc) from exc

    def _file(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"
