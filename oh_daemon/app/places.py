"""Where the user's files are: settings, decisions, logs of conversations without a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oh_daemon.app.user_files import user_files

if TYPE_CHECKING:
    from oh_daemon.store.own_logs import OwnLogs


@dataclass(frozen=True, slots=True)
class Places:
    """Absolute paths; nothing is created here."""

    settings_file: Path
    decisions_file: Path
    state_folder: Path
    log_file: Path

    @property
    def doors(self) -> Path:
        """The folder for sockets of daemons that share their tools."""
        return self.state_folder / "doors"

    @property
    def worktrees(self) -> Path:
        """The folder for those of isolated conversations."""
        return self.state_folder / "worktrees"

    @property
    def private(self) -> tuple[Path, ...]:
        """What commands of agents need not see: keys, decisions, other conversations."""
        return (self.settings_file, self.decisions_file, self.state_folder, self.log_file)

    @property
    def own_logs(self) -> OwnLogs:
        """The marks of the logs that this user's daemons began."""
        from oh_daemon.store.own_logs import OwnLogs  # noqa: PLC0415 - places are needed early.

        return OwnLogs(self.state_folder / "logs")

    @staticmethod
    def of_user(environment: Mapping[str, str]) -> Places:
        """Return this system's usual places; `OH_DAEMON_HOME` puts them all under one folder."""
        return Places(*map(Path, user_files(environment)))
