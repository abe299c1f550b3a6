"""Builds what the conversations of a process share from the user's own files and variables.

The editor's daemon and `oh-daemon run` begin with it and add what their client brings. The Python
API does not: it reads neither files nor variables.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from oh_daemon.app.models import Models
from oh_daemon.app.places import Places
from oh_daemon.app.self_test import SelfTest
from oh_daemon.app.shared import Shared
from oh_daemon.app.sources import SettingsSources, secret_values
from oh_daemon.app.trust import TrustBook
from oh_daemon.app.views import Views
from oh_daemon.contract.settings import Merged
from oh_daemon.core.secrets import Masker
from oh_daemon.core.slots import Slots
from oh_daemon.mcp_servers.connections import Surroundings
from oh_daemon.mcp_servers.servers import McpServers
from oh_daemon.model.io_loop import run_on_loop
from oh_daemon.store.kept_files import KeptFiles
from oh_daemon.store.user_state import UserState
from oh_daemon.workspace.spawner import Spawner


def share_for_user(
    sources: SettingsSources,
    places: Places,
    trusted: Mapping[Path, bool],
    self_test: SelfTest | None = None,
) -> tuple[Shared, Models]:
    """Return what is shared, and the models; `trusted` is what editor or command line says."""
    test = self_test or SelfTest(sources.environment)
    user_state = UserState(places.decisions_file)
    trust = TrustBook(user_state, trusted=trusted)

    def settings(folder: Path | None) -> Merged:
        merged = sources.merged(folder, lambda folder: trust.of(folder) == "full")
        problem = user_state.problem
        return replace(merged, problems=(*merged.problems, problem)) if problem else merged

    masker = Masker(secret_values(sources.environment))
    models = Models(lambda: settings(None).settings, sources.environment, masker.add)
    spawner = Spawner()
    # The package also raises what it logs; without a handler, its log would go to stderr.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    keep = KeptFiles(places.state_folder / "mcp")
    surroundings = Surroundings(spawner, models.variables, masker, Path.cwd(), keep)
    shared = Shared(
        spawner=spawner,
        views=Views(
            spawner,
            Path.home(),
            sources.environment,
            own=places.private,
            allowed=lambda: settings(None).settings.sandbox_reads,
        ),
        mcp=McpServers(run_on_loop, lambda: settings(None).settings.mcp_servers, surroundings),
        settings=settings,
        model_for=models.model_for,
        default_model=models.require_default,
        trust=trust,
        user_folder=places.state_folder,
        own_logs=places.own_logs,
        sandbox=lambda folders: test.sandbox(settings(_first(folders)).settings.sandbox, folders),
        home=Path.home(),
        user_memory=places.settings_file.parent / "memory",
        masker=masker,
        slots=Slots(settings(None).settings.max_running_turns),
        environment=sources.environment,
        is_granted=user_state.is_granted,
        save_grant=user_state.add_grant,
        spend=user_state.spend,
    )
    return shared, models


def _first(folders: Sequence[Path]) -> Path | None:
    return next(iter(folders), None)
