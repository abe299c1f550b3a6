"""Where this user's files are, as plain text; `places` has them as paths."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


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
        named = environment.get(name, "")
        return f"{named if named.startswith('/') else f'{home}/{usual}'}/oh-daemon"

    state = base("XDG_STATE_HOME", ".local/state")
    return base("XDG_CONFIG_HOME", ".config"), state, f"{state}/log"
