"""A project and a home, and a sandbox of both in which commands run."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leftovers import tagged_pids, wait_until_gone

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.pending_changes.upper_layer import ChangeSet, collect
from oh_daemon.features.sandbox import bwrap
from oh_daemon.features.sandbox.mounts import SandboxMounts, cache_places
from oh_daemon.features.sandbox.overlay import OverlaySandbox
from oh_daemon.features.sandbox.removal import take_out
from oh_daemon.features.sandbox.secret_files import SecretCovers
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.system.git import find_ignored
from oh_daemon.system.proc import find_overlay_process, held_open
from oh_daemon.system.spawner import Spawner


@dataclass
class Workspace:
    """What a test works with."""

    project: Path
    home: Path
    view: OverlaySandbox
    shells: Shells
    host: Spawner

    @property
    def upper(self) -> Path:
        return self.view.upper(self.project)

    @property
    def root(self) -> int:
        root = self.view.spawner.root
        assert root is not None
        return root

    def run(self, command: str) -> str:
        outcome = self.shells.open().run(command, timeout_s=600, cancel=CancelToken())
        return outcome.output.head

    def collect(self, handed_in: Mapping[Path, str] | None = None, since_ns: int = 0) -> ChangeSet:
        return collect(
            self.upper,
            self.project,
            handed_in=handed_in or {},
            since_ns=since_ns or time.time_ns() + 10**9,
            list_open=lambda: held_open(self.root, self.project),
            are_ignored=partial(find_ignored, self.host, self.project),
        )

    def take_out(self, *names: Path) -> None:
        take_out(self.upper, self.project, names, find_overlay_process(self.root, self.project))
        self.view.refresh()


def bubblewrap() -> Path:
    return next(bwrap.candidates(os.environ["PATH"], []))


@contextmanager
def workspace_at(
    place: Path,
    name: str = "one",
    scratch: Sequence[Path] = (),
    program: Path | None = None,
    idle_s: float = 3.0,
) -> Generator[Workspace]:
    home = place / "home"
    project = home / "project"
    project.mkdir(parents=True, exist_ok=True)
    (project / "a.txt").write_text("below\n")
    host = Spawner()
    program = program or bubblewrap()
    masks = SecretCovers(host, [project], home, {})
    caches = dict(cache_places(home, {"PATH": str(place / "bin")}))
    ground = SandboxMounts(
        program, [project], [home], [Path("/run")], caches, masks, scratch=scratch
    )
    view = OverlaySandbox(host, ground, home / "state/views" / name, idle_s=idle_s)
    shells = Shells(host, project, lambda: os.environ, sandbox=view)
    yield Workspace(project, home, view, shells, host)
    shells.close()
    view.close()
    host.close()
    assert not (home / "state/views" / name).exists()
    wait_until_gone(tagged_pids(view.spawner.run_id) + tagged_pids(host.run_id))
