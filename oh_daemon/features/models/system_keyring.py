"""The system's keyring, through the library `keyring`, which is imported when it is first asked.

Each call has two seconds: a locked keyring waits for somebody to see its question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from oh_daemon.protocol.errors import UserError

T = TypeVar("T")
_SERVICE = "oh-daemon"
_LIMIT_S = 2.0


def save_secret(account: str, secret: str) -> None:
    """Raises `UserError`, as all functions here, when the keyring does not do it."""
    _ask(lambda keyring: keyring.set_password(_SERVICE, account, secret))


def find_secret(account: str) -> str | None:
    return _ask(lambda keyring: keyring.get_password(_SERVICE, account))


def delete_secret(account: str) -> None:
    _ask(lambda keyring: keyring.delete_password(_SERVICE, account))


def _ask(act: Callable[[Any], T]) -> T:
    """Do it with the library, which cannot be cancelled: a call that hangs keeps its thread."""
    try:
        import keyring  # noqa: PLC0415 - optional, and no start should wait for it.
    except ImportError:
        raise UserError(
            "the system keyring needs the package `keyring`, which is not installed",
            hint="run `pip install 'oh-daemon[keyring]'`, or set `keyStore` to `file`",
        ) from None
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(act(keyring))
        except Exception as exc:  # noqa: BLE001 - whatever a backend raises.
            answer.set_exception(exc)

    threading.Thread(target=run, name="keyring", daemon=True).start()
    try:
        return answer.result(_LIMIT_S)
    except TimeoutError:
        problem = f"has not answered within {_LIMIT_S:.0f} s"
    except Exception as exc:  # noqa: BLE001 - as above; its text may hold anything.
        problem = f"refuses: {type(exc).__name__}"
    raise UserError(
        f"the system keyring {problem}", hint="unlock it, or set `keyStore` to `file` and log in"
    )
