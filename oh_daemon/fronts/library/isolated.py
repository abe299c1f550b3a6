"""What an isolated conversation of a program changed, and the sandbox in which it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oh_daemon.app import isolated as app
from oh_daemon.app.live import Live
from oh_daemon.app.places import Places
from oh_daemon.contract.daemon_messages import ReviewedFile, ReviewParams, ReviewResult
from oh_daemon.contract.errors import InvalidStateError
from oh_daemon.contract.items import NamedHunk
from oh_daemon.contract.settings import SandboxSetting
from oh_daemon.fronts.library.workspace import Workspace
from oh_daemon.sandbox.levels import Row, Sandbox, choose, try_levels, with_mounts
from oh_daemon.workspace.paths import uri_from_path
from oh_daemon.workspace.spawner import Spawner


@dataclass(frozen=True, slots=True)
class Isolated:
    """The changes that wait; the agent must be at rest. Methods raise `UserError`."""

    _changes: app.Isolated
    _id: str
    _folder: Path

    def changes(self) -> tuple[ReviewedFile, ...]:
        """What differs from what the conversation began with, with patches."""
        return self._changes.list(with_patches=True).files

    def land(
        self, files: Sequence[str | Path] = (), hunks: Sequence[NamedHunk] = ()
    ) -> ReviewResult:
        """Bring changes into the workspace: these files, these hunks, or all.

        Without names, protected files wait. Return the URIs of what has landed, and of what has
        not, with the reason.
        """
        return self._changes.land(self._chosen(files, hunks))

    def discard(
        self, files: Sequence[str | Path] = (), hunks: Sequence[NamedHunk] = ()
    ) -> ReviewResult:
        """Let the conversation have what the workspace has again; see `land`."""
        return self._changes.discard(self._chosen(files, hunks))

    def _chosen(self, files: Sequence[str | Path], hunks: Sequence[NamedHunk]) -> ReviewParams:
        uris = tuple(uri_from_path(self._folder / file) for file in files)
        return ReviewParams(conversation_id=self._id, uris=uris, hunks=tuple(hunks))


def isolated_of(live: Live, folders: Sequence[Path]) -> Isolated:
    """Return what waits. Raises `InvalidStateError` if the conversation is not isolated."""
    if live.isolated is None:
        raise InvalidStateError("the conversation is not isolated; start it with isolated=True")
    return Isolated(live.isolated, live.id, folders[0])


def sandbox_of(
    workspace: Workspace | str | Path | None,
    spawner: Spawner,
    environment: Mapping[str, str],
) -> Callable[[Sequence[Path]], Sandbox]:
    """Return what finds the sandbox of the commands; levels are tried when it is first needed."""
    wanted: SandboxSetting = workspace.sandbox if isinstance(workspace, Workspace) else "auto"
    if wanted == "off":
        return lambda _folders: Sandbox("off", "none")

    @cache
    def rows() -> Sequence[Row]:
        return try_levels(spawner, Places.of_user(environment).state_folder, environment)

    return lambda folders: choose(wanted, with_mounts(rows(), folders))
