"""The views of conversations: one for each that has folders, shared by its sub-agents."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from oh_daemon.features.isolation.isolated_overlay import IsolatedView
from oh_daemon.features.network.command_network import ViewNetwork
from oh_daemon.features.pending_changes.git_repositories import git_dirs_outside
from oh_daemon.features.pending_changes.shared_overlay import SharedOverlay
from oh_daemon.features.sandbox.levels import Row
from oh_daemon.features.sandbox.mounts import Ground, cache_places
from oh_daemon.features.sandbox.overlay import View
from oh_daemon.features.sandbox.secret_files import Masks
from oh_daemon.features.sandbox.storage import KEPT, sweep
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.system.spawner import Spawner, refusals
from oh_daemon.workspace.paths import real_path


@dataclass(slots=True)
class SharedView:
    """The overlay of a conversation and of its sub-agents, and the network in it."""

    overlay: SharedOverlay
    network: ViewNetwork
    isolated: IsolatedView | None = None
    """Set for an isolated conversation."""

    def spawner(self) -> Spawner:
        """Return what starts programs inside, which see no secret. Raises `ToolError`."""
        with refusals("the sandbox"):
            self.overlay.view.start()
            self.overlay.view.refresh()
        return self.overlay.view.spawner


class Views:
    """All views of a process. Safe from any thread."""

    def __init__(
        self,
        spawner: Spawner,
        home: Path,
        environment: Mapping[str, str],
        *,
        own: Sequence[Path] = (),
        hosts: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`own` is what the daemon keeps for itself; for `allowed` see `Masks`."""
        self._spawner = spawner
        self._home = home
        self._environment = environment
        self._own = own
        self._hosts = hosts
        self._lock = threading.Lock()
        self._views: dict[str, SharedView] = {}
        self._clean_places: set[Path] = set()

    def join(
        self,
        owner_id: str,
        folders: Sequence[Path],
        row: Row,
        make_network: Callable[[], ViewNetwork],
        *,
        is_isolated: bool = False,
        outlives: bool = False,
    ) -> SharedView | None:
        """Return the view of a conversation, made as it was tried; its sub-agents join it.

        None if that was no try of a view. That of an isolated conversation may outlive the daemon.
        """
        if row.program is None or row.place is None:
            return None
        with self._lock:
            if row.place not in self._clean_places:
                self._clean_places.add(row.place)
                sweep(row.place)
            if owner_id not in self._views:
                facts = (self._home, self._environment)
                masks = Masks(self._spawner, folders, *facts, own=self._own, patterns=self._hosts)
                ground = ground_of(row.program, folders, self._home, masks)
                ground = replace(ground, caches=dict(cache_places(*facts)))
                place = row.place / (f"{KEPT}{owner_id}" if outlives else uuid4().hex)
                network = make_network()
                view = View(self._spawner, ground, place, network, outlives=outlives)
                files = IsolatedView(view, self._spawner, folders, place) if is_isolated else None
                self._views[owner_id] = SharedView(SharedOverlay(view), network, files)
            return self._views[owner_id]

    def leave(self, owner_id: str, shells: Shells) -> None:
        """End the view when the last shells have left it."""
        with self._lock:
            overlay = self._views.get(owner_id)
            if overlay is None:
                return
            overlay.overlay.shells.remove(shells)
            overlay.network.members.pop(shells, None)
            if overlay.overlay.shells:
                return
            del self._views[owner_id]
        overlay.overlay.view.close()


def ground_of(
    program: Path, folders: Sequence[Path], home: Path, masks: Masks | None = None
) -> Ground:
    """Return what the view of a conversation with these folders is made from."""
    private, scratch = ([real_path(place)] for place in (home, Path(tempfile.gettempdir())))
    # What is committed there would not come back, so git itself says that it cannot.
    repositories = git_dirs_outside(folders)
    hidden_places = [Path("/run")]
    return Ground(
        program, folders, private, hidden_places, masks=masks, fixed=repositories, scratch=scratch
    )
