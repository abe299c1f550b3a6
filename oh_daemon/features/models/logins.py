"""What `oh-daemon login` has stored: for each provider a key, an address and a model.

It is one file that only the user may read; other processes see a change at once. By setting, the
keys themselves are in the system's keyring.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.models.system_keyring import delete_secret, find_secret, save_secret
from oh_daemon.protocol.errors import ReadOnlyError
from oh_daemon.system.private_files import (
    CachedFile,
    disk_error,
    parse_object,
    read_private,
    replace_file,
)

_NAMES = {"model": "model", "base_url": "baseUrl", "key": "key", "account": "account"}
"""The fields of a login by their names in the file."""


class Login(Struct, frozen=True):
    """How one provider is reached."""

    provider: str
    """As litellm names it."""
    model: str
    """The model to use when none is chosen."""
    base_url: str | None = None
    """The only address that gets the key; None for the provider's own."""
    key: str | None = None
    account: str | None = None
    """Where the key is in the system's keyring; another one after each login."""

    def __repr__(self) -> str:
        return f"Login(provider={self.provider!r}, model={self.model!r})"

    @property
    def has_key(self) -> bool:
        return bool(self.key or self.account)

    def find_key(self) -> str | None:
        """Return the key, wherever it is. Raises `UserError` when the keyring does not give it."""
        return find_secret(self.account) if self.account else self.key


class Logins:
    """Thread-safe for reading; a person changes them, one command at a time."""

    def __init__(self, path: Path, on_key: Callable[[str], None] = lambda _key: None) -> None:
        """`on_key` is called with each key that is read, before anybody gets it."""
        self._path = path
        self._on_key = on_key
        self._file = CachedFile(path, self._read)

    def all(self) -> Mapping[str, Login]:
        """Return the logins by provider, the newest last; the same object while none changes."""
        return self._file.value()

    def add(self, login: Login, *, in_keyring: bool = False) -> None:
        """Store a login in place of the one of this provider. Raises `UserError`."""
        if in_keyring and login.key:
            account = f"{login.provider} {uuid.uuid4().hex}"
            save_secret(account, login.key)
            login = replace(login, key=None, account=account)
        self._change({**self._without(login.provider), login.provider: login})

    def remove(self, provider: str | None = None) -> tuple[str, ...]:
        """Remove one login, or all; return whose they were. Raises `UserError`."""
        remaining = {} if provider is None else self._without(provider)
        names = tuple(name for name in self.all() if name not in remaining)
        if names:
            self._change(remaining)
        return names

    def _change(self, logins: Mapping[str, Login]) -> None:
        """Write these instead, then delete keys from the keyring that nothing names any more."""
        accounts = {login.account for login in self.all().values()}
        self._write(logins)
        for account in accounts - {login.account for login in logins.values()} - {None}:
            delete_secret(account or "")

    def _without(self, provider: str) -> dict[str, Login]:
        return {name: login for name, login in self.all().items() if name != provider}

    def _write(self, logins: Mapping[str, Login]) -> None:
        values = {name: _fields_to_store(login) for name, login in logins.items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if values:
                replace_file(self._path, orjson.dumps(values, option=orjson.OPT_INDENT_2))
            else:
                self._path.unlink(missing_ok=True)
        except OSError as exc:
            raise disk_error(self._path, exc) from exc

    def _read(self, path: Path) -> Mapping[str, Login]:
        values: dict[str, Any] = {}
        with contextlib.suppress(OSError, ReadOnlyError), read_private(path) as file:
            values = parse_object(file.read())
        logins = {name: login for name in values if (login := _login(name, values[name]))}
        for login in logins.values():
            self._on_key(login.key or "")
        return logins


def _fields_to_store(login: Login) -> dict[str, str]:
    values = {name: cast("str | None", getattr(login, field)) for field, name in _NAMES.items()}
    return {name: value for name, value in values.items() if value is not None}


def _login(provider: str, entry: Any) -> Login | None:
    """Return the login in an entry of the file, or None if it is none."""
    match entry:
        case {"model": str(model), **more}:
            fields = {field: more.get(name) for field, name in _NAMES.items() if name in more}
            is_valid = all(isinstance(value, str) for value in fields.values())
            return Login(provider, model, **fields) if is_valid else None
        case _:
            return None
