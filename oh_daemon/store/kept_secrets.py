"""What the daemon must remember and nobody else may read: a file per name, in the user's state."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import orjson

from oh_daemon.contract.errors import DaemonError
from oh_daemon.core.ports import Json
from oh_daemon.store.private_files import (
    disk_error,
    parse_object,
    private_folder,
    read_private,
    replace_file,
)


class KeptSecrets:
    """A file is replaced whole, so several daemons may share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, default: Json) -> Json:
        """What was saved; `default` when that is nothing or cannot be read."""
        # Nobody else may plant a link or a pipe in its place.
        with contextlib.suppress(OSError, DaemonError), read_private(self._file(name)) as file:
            return parse_object(file.read()) or default
        return default

    def __setitem__(self, name: str, value: Json) -> None:
        """Raises `ReadOnlyError` or `StorageError`."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            private_folder(self._folder)
            replace_file(self._file(name), orjson.dumps(value))
        except OSError as exc:
            raise disk_error(self._folder, exc) from exc

    def _file(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"
