"""What an agent may do in a folder: combines the user's decisions with the editor's verdict.

The strictest known verdict wins; a folder is read-only until it has one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from oh_daemon.contract.daemon_messages import FolderTrust, Trust
from oh_daemon.contract.errors import ReadOnlyError
from oh_daemon.store.user_state import UserState


class TrustBook:
    """Trust by folder. Thread-safe. Decisions made `for_now` end with the process."""

    def __init__(
        self, user_state: UserState | None = None, *, trusted: Mapping[Path, bool] | None = None
    ) -> None:
        """`trusted` is the verdict of the editor, or of the command line, by folder."""
        self._user_state = user_state
        self._lock = threading.Lock()
        self._stated = {_real(path): verdict for path, verdict in (trusted or {}).items()}
        self._for_now: dict[str, Trust] = {}
        self._runs: dict[str, dict[str, bool]] = {}

    def of(self, folder: Path) -> Trust:
        real = _real(folder)
        # Without the lock: with a hundred turns at work, all others would wait for each read.
        stated = self._stated.get(real)
        decided = self._for_now.get(real)
        if decided is None and self._user_state is not None:
            decided = self._user_state.trust(real)
        if stated is False:
            return "none" if decided == "none" else "readOnly"
        return decided or ("full" if stated else "readOnly")

    def may_ask(self, folder: Path) -> bool:
        """Whether the user may be asked for trust: not if the editor itself withholds it."""
        with self._lock:
            return self._stated.get(_real(folder)) is not False

    def decide(self, folder: Path, trust: Trust, *, for_now: bool = False) -> None:
        """Record a decision, in place of all earlier ones about this folder and what it runs.

        Raises `ReadOnlyError` when a lasting one cannot be stored.
        """
        real = _real(folder)
        with self._lock:
            self._for_now[real] = trust
            self._runs.pop(real, None)
        if not for_now and self._user_state is not None:
            self._user_state.forget_runs(real)
            self._user_state.set_trust(real, trust)

    def runs(self, folder: Path) -> Mapping[str, bool] | None:
        """Return, by hash, what may run by itself in a folder; None if that was never decided."""
        real = _real(folder)
        with self._lock:
            now = self._runs.get(real)
        kept = self._user_state.runs(real) if self._user_state is not None else None
        return None if now is None and kept is None else {**(kept or {}), **(now or {})}

    def decide_runs(
        self, folder: Path, hashes: Iterable[str], *, may_run: bool, for_now: bool
    ) -> None:
        """Record whether these may run; only until the process ends, if it cannot be stored."""
        real, decided = _real(folder), dict.fromkeys(hashes, may_run)
        with self._lock:
            self._runs[real] = {**self._runs.get(real, {}), **decided}
        if not for_now and self._user_state is not None:
            with suppress(ReadOnlyError):
                self._user_state.add_runs(real, decided)

    def listed(self) -> tuple[FolderTrust, ...]:
        with self._lock:
            kept = self._user_state.trusted_folders() if self._user_state is not None else ()
            known = {*kept, *self._stated, *self._for_now}
        return tuple(FolderTrust(folder=f, trusted=self.of(Path(f))) for f in sorted(known))


def _real(folder: Path) -> str:
    # As text, since each step asks many times.
    return os.path.realpath(folder)
