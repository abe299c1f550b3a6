"""A conversation of a folder, opened for a command that does not set its agent to work."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from oh_daemon.app.conversations import Conversations
from oh_daemon.app.daemon_log import log_quietly_to
from oh_daemon.app.for_user import share_for_user
from oh_daemon.app.live import Live
from oh_daemon.app.places import Places
from oh_daemon.app.sources import SettingsSources
from oh_daemon.fronts.cli.logs import find_id


@contextmanager
def at_rest(folder: Path, start_of_id: str, command: str) -> Generator[Live]:
    """Open the conversation as `command`, and close it at the end. Raises `UserError`."""
    places = Places.of_user(os.environ)
    sources = SettingsSources(os.environ, places.settings_file)
    shared, _ = share_for_user(sources, places, {folder: True})
    log_quietly_to(places.log_file, shared.settings(folder).settings.log_level, shared.masker)
    conversations = Conversations(replace(shared, client_name=command))
    try:
        ids = [summary["id"] for summary in conversations.listed([folder])]
        yield conversations.open(find_id(ids, start_of_id, folder), [folder], at_work=False)
    finally:
        conversations.close_all(1.0)
