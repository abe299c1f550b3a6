"""Where the user's files are: settings, decisions, logs of conversations without a folder.

It is needed before anything slow is imported, so the paths are made on demand.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from oh_daemon.storage.log_ownership import OwnLogs


class Places:
    """Absolute paths; nothing is created here."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        from pathlib import Path  # noqa: PLC0415 - `pathlib` takes 15 ms to import.

        paths = map(Path, user_files(environment))
        self.settings_file, self.decisions_file, self.state_folder, self.log_file = paths
        runtime = environment.get("XDG_RUNTIME_DIR", "")
        is_own = not environment.get("OH_DAEMON_HOME") and runtime.startswith("/")
        self.runtime_folder = Path(runtime, "oh-daemon") if is_own else self.state_folder
        """For what lasts no longer than the user is logged in."""

    @property
    def logins_file(self) -> Path:
        """What `oh-daemon login` has stored; its name alone guards it from the agent's tools."""
        return self.decisions_file.with_name("credentials.json")

    @property
    def tool_sockets(self) -> Path:
        """The folder for sockets of daemons that share their tools."""
        return self.state_folder / "doors"

    @property
    def mcp_marks(self) -> Path:
        """The folder with the MCP servers whose read-only marks the user trusts."""
        return self.state_folder / "mcp-marks"

    @property
    def serve_socket(self) -> Path:
        """The address of the user's daemon for several clients, `oh-daemon serve`."""
        return self.runtime_folder / "serve.sock"

    @property
    def worktrees(self) -> Path:
        """The folder for those of isolated conversations."""
        return self.state_folder / "worktrees"

    @property
    def private(self) -> tuple[Path, ...]:
        """What commands of agents need not see: keys, decisions, other conversations."""
        files = (self.settings_file, self.decisions_file, self.logins_file, self.log_file)
        return (*files, self.state_folder)

    @property
    def own_logs(self) -> OwnLogs:
        """The marks of the logs that this user's daemons began."""
        from oh_daemon.storage.log_ownership import OwnLogs  # noqa: PLC0415 - places are needed early.

        return OwnLogs(self.state_folder / "logs")


def user_files(environment: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Return the settings, the decisions, the folder of the state, and the log file.

    They are where the system wants them; `OH_DAEMON_HOME` puts them all under one folder.
    """
    if own := environment.get("OH_DAEMON_HOME"):
        folders, settings = (own, f"{own}/state", own), own
    else:
        folders, settings = _folders(environment), os.path.expanduser("~/.openhands")  # noqa: PTH111 - see above.
    config, state, log = folders
    return f"{settings}/settings.json", f"{config}/decisions.json", state, f"{log}/daemon.log"


def _folders(environment: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the folders of the configuration, the state and the log."""
    home = os.path.expanduser("~")  # noqa: PTH111 - `pathlib` takes 15 ms to import.
    if sys.platform == "darwin":
        config = f"{home}/Library/Application Support/oh-daemon"
        return config, config, f"{home}/Library/Logs/oh-daemon"

    def base(name: str, usual: str) -> str:
        # https://specifications.freedesktop.org/basedir-spec: a relative path is ignored.
        value = environment.get(name, "")
        return f"{value if value.startswith('/') else f'{home}/{usual}'}/oh-daemon"

    state = base("XDG_STATE_HOME", ".local/state")
    return base("XDG_CONFIG_HOME", ".config"), state, f"{state}/log"
