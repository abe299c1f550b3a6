"""Values that the daemon keeps and only its user may read: a file per name, in the user's state."""

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


class KeptFiles:
    """The files in one folder. Each is replaced as a whole, so several daemons may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, default: Json) -> Json:
        """Return the saved value; `default` when there is none or it cannot be read."""
        # `read_private` refuses a link or a pipe that someone planted there.
        with contextlib.suppress(OSError, DaemonError), read_private(self._file(name)) as file:
            return parse_object(file.read()) or default
        return default

    def __setitem__(self, name: str, value: Json) -> None:
        """Save a value. Raises `ReadOnlyError` or `StorageError`."""
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            private_folder(self._folder)
            replace_file(self._file(name), orjson.dumps(value))
        except OSError as exc:
            raise disk_error(self._folder, exc) from exc

    def forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()}.json"
