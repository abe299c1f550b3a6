"""The sandboxes of conversations: one for each that has folders, shared by its sub-agents."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.isolation.isolated_overlay import IsolatedOverlay
from oh_daemon.features.network.command_network import OverlayNetwork
from oh_daemon.features.pending_changes.git_repositories import git_dirs_outside
from oh_daemon.features.pending_changes.shared_overlay import SharedOverlay
from oh_daemon.features.sandbox.levels import Trial
from oh_daemon.features.sandbox.mounts import SandboxMounts, cache_places
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.sandbox.secret_files import SecretCovers
from oh_daemon.features.sandbox.storage import KEPT, sweep
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.system.spawner import Spawner, start_errors
from oh_daemon.workspace.paths import real_path


class SharedSandbox(Struct):
    """The overlay of a conversation and of its sub-agents, and the network in it."""

    overlay: SharedOverlay
    network: OverlayNetwork
    isolated_files: IsolatedOverlay | None = None
    """Set for an isolated conversation."""

    def spawner(self) -> Spawner:
        """Return what starts programs inside, which see no secret. Raises `ToolError`."""
        with start_errors("the sandbox"):
            self.overlay.sandbox.start()
            self.overlay.sandbox.refresh()
        return self.overlay.sandbox.spawner


class Sandboxes:
    """All sandboxes of a process. Safe from any thread."""

    def __init__(
        self,
        spawner: Spawner,
        home: Path,
        environment: Mapping[str, str],
        *,
        own: Sequence[Path] = (),
        hosts: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`own` is what the daemon keeps for itself; for `allowed` see `SecretCovers`."""
        self._spawner = spawner
        self._home = home
        self._environment = environment
        self._own = own
        self._hosts = hosts
        self._lock = threading.Lock()
        self._by_owner: dict[str, SharedSandbox] = {}
        self._clean_places: set[Path] = set()

    def join(
        self,
        owner_id: str,
        folders: Sequence[Path],
        row: Trial,
        make_network: Callable[[], OverlayNetwork],
        *,
        is_isolated: bool = False,
        outlives: bool = False,
    ) -> SharedSandbox | None:
        """Return the sandbox of a conversation, made as it was tried; its sub-agents join it.

        None if that was no try of a sandbox. That of an isolated conversation may outlive the
        daemon.
        """
        if row.program is None or row.place is None:
            return None
        with self._lock:
            if row.place not in self._clean_places:
                self._clean_places.add(row.place)
                sweep(row.place)
            if owner_id not in self._by_owner:
                facts = (self._home, self._environment)
                masks = SecretCovers(
                    self._spawner, folders, *facts, own=self._own, patterns=self._hosts
                )
                mounts = mounts_of(row.program, folders, self._home, masks)
                mounts = replace(mounts, caches=dict(cache_places(*facts)))
                place = row.place / (f"{KEPT}{owner_id}" if outlives else uuid4().hex)
                network = make_network()
                overlay = OverlaySandbox(self._spawner, mounts, place, network, outlives=outlives)
                files = (
                    IsolatedOverlay(overlay, self._spawner, folders, place) if is_isolated else None
                )
                self._by_owner[owner_id] = SharedSandbox(SharedOverlay(overlay), network, files)
            return self._by_owner[owner_id]

    def leave(self, owner_id: str, shells: Shells) -> None:
        """End the sandbox when the last shells have left it."""
        with self._lock:
            overlay = self._by_owner.get(owner_id)
            if overlay is None:
                return
            overlay.overlay.shells.remove(shells)
            overlay.network.members.pop(shells, None)
            if overlay.overlay.shells:
                return
            del self._by_owner[owner_id]
        overlay.overlay.sandbox.close()


def mounts_of(
    program: Path, folders: Sequence[Path], home: Path, masks: SecretCovers | None = None
) -> SandboxMounts:
    """Return what the sandbox of a conversation with these folders is made from."""
    private, scratch = ([real_path(place)] for place in (home, Path(tempfile.gettempdir())))
    repositories = git_dirs_outside(folders)
    return SandboxMounts(
        program,
        folders,
        private,
        hidden_places=[Path("/run")],
        masks=masks,
        fixed=repositories.fixed,
        scratch=scratch,
        git_dirs=repositories.layered,
    )
