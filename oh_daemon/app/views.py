"""The views of conversations: one for each that has folders, shared by its sub-agents."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from oh_daemon.contract import plain
from oh_daemon.contract.checkpoints import LandingPlanned
from oh_daemon.contract.errors import ToolError
from oh_daemon.core.ports import Json
from oh_daemon.sandbox.landing import InStep
from oh_daemon.sandbox.levels import Row
from oh_daemon.sandbox.view import Ground, View, sweep
from oh_daemon.tools.landing import LandingTool
from oh_daemon.tools.language import Watch
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import real_path
from oh_daemon.workspace.shell import Shells
from oh_daemon.workspace.spawner import Spawner

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SharedView:
    """A view and the shells in it, of a conversation and of its sub-agents."""

    view: View
    shells: list[Shells] = field(default_factory=list[Shells])

    @property
    def is_busy(self) -> bool:
        """Whether a command runs in front somewhere in it."""
        return any(shells.is_busy for shells in self.shells)


class Views:
    """All views of a process. Safe from any thread."""

    def __init__(self, spawner: Spawner, home: Path) -> None:
        self._spawner = spawner
        self._home = home
        self._lock = threading.Lock()
        self._views: dict[str, SharedView] = {}
        self._swept: set[Path] = set()

    def join(self, owner_id: str, folders: Sequence[Path], tried: Row) -> SharedView | None:
        """Return the view of a conversation, made as it was tried; its sub-agents join it.

        None if that was no try of a view.
        """
        if tried.program is None or tried.place is None:
            return None
        with self._lock:
            if tried.place not in self._swept:
                self._swept.add(tried.place)
                sweep(tried.place)
            if owner_id not in self._views:
                private = map(real_path, (self._home, Path(tempfile.gettempdir())))
                ground = Ground(tried.program, folders, [*private], [Path("/run")])
                view = View(self._spawner, ground, tried.place / uuid4().hex)
                self._views[owner_id] = SharedView(view)
            return self._views[owner_id]

    def leave(self, owner_id: str, shells: Shells) -> None:
        """End the view when the last shells have left it."""
        with self._lock:
            shared = self._views.get(owner_id)
            if shared is None:
                return
            shared.shells.remove(shells)
            if shared.shells:
                return
            del self._views[owner_id]
        shared.view.close()


@dataclass(frozen=True, slots=True)
class ViewLandings:
    """Implements `core.landing.Landings`."""

    step: InStep
    documents: Documents
    watch: Watch
    is_busy: Callable[[], bool]

    def begin(self) -> None:
        """Let commands see what the user sees. Raises `ToolError`."""
        try:
            self.step.begin()
        except OSError as exc:
            raise ToolError(f"the sandbox cannot be brought up to date: {exc.strerror}") from exc

    def plan(self, observed: Json) -> LandingPlanned | None:
        if self.is_busy():
            return None  # Its changes are collected together, when the last command has ended.
        try:
            return self.step.plan(observed)
        except (ToolError, OSError) as exc:
            logger.warning("the changes of a command cannot be collected: %s", exc)
            left_out = {"what the command changed": f"it cannot be collected: {exc}"}
            return LandingPlanned(changes=(), left_out=left_out, observed=observed)

    def settle(self) -> None:
        self.step.settle()

    def drop(self) -> None:
        self.step.drop()

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> LandingTool:
        return LandingTool(self.documents, self.watch, landing, asks=asks)
