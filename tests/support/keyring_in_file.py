"""A backend for the library `keyring` that keeps secrets in the file that KEYRING_FILE names.

If that file is a folder, it never answers, like a locked keyring whose question nobody sees.
"""

import json
import os
import threading
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class FileKeyring(KeyringBackend):
    priority = 1  # pyright: ignore[reportAssignmentType] - a property of the class, as in their own.

    def _load(self) -> dict[str, str]:
        path = Path(os.environ["KEYRING_FILE"])
        if path.is_dir():
            threading.Event().wait()
        return json.loads(path.read_text()) if path.exists() else {}

    def _save(self, secrets: dict[str, str]) -> None:
        Path(os.environ["KEYRING_FILE"]).write_text(json.dumps(secrets))

    def get_password(self, service: str, username: str) -> str | None:
        return self._load().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._save({**self._load(), f"{service} {username}": password})

    def delete_password(self, service: str, username: str) -> None:
        secrets = self._load()
        if secrets.pop(f"{service} {username}", None) is None:
            raise PasswordDeleteError("no such secret")
        self._save(secrets)
