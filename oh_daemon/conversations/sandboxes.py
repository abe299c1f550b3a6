"""The views of conversations: one for each that has folders, shared by its sub-agents."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from oh_daemon.features.isolation.isolated_overlay import IsolatedView
from oh_daemon.features.language.language import Watch
from oh_daemon.features.network.command_network import ViewNetwork
from oh_daemon.features.pending_changes.apply import LandingTool
from oh_daemon.features.pending_changes.apply_git import GitLanding
from oh_daemon.features.pending_changes.git_repositories import git_dirs_outside
from oh_daemon.features.pending_changes.offers import LeftInside
from oh_daemon.features.pending_changes.overlay_sync import CommandStart, Exchange, Stands
from oh_daemon.features.sandbox.levels import Row
from oh_daemon.features.sandbox.mounts import Ground, cache_places
from oh_daemon.features.sandbox.overlay import View
from oh_daemon.features.sandbox.secret_files import Masks
from oh_daemon.features.sandbox.storage import KEPT, sweep
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.kernel.extension_points import MakeDurable
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import plain
from oh_daemon.protocol.checkpoints import LandingPlanned
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.spawner import Spawner, refusals, start_thread
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import path_from_uri, real_path, uri_from_path

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SharedView:
    """A view and the shells in it, of a conversation and of its sub-agents."""

    view: View
    network: ViewNetwork
    isolated: IsolatedView | None = None
    """Set for an isolated conversation."""
    shells: list[Shells] = field(default_factory=list[Shells])
    command_start: CommandStart = field(default_factory=CommandStart)
    changing: threading.Lock = field(default_factory=threading.Lock)
    """Held while unsaved texts are put in, or changes taken out."""

    def spawner(self) -> Spawner:
        """Return what starts programs inside, which see no secret. Raises `ToolError`."""
        with refusals("the sandbox"):
            self.view.start()
            self.view.refresh()
        return self.view.spawner

    @property
    def is_busy(self) -> bool:
        """Whether a command runs in front somewhere in it."""
        return any(shells.is_busy for shells in self.shells)


class Views:
    """All views of a process. Safe from any thread."""

    def __init__(
        self,
        spawner: Spawner,
        home: Path,
        environment: Mapping[str, str],
        *,
        own: Sequence[Path] = (),
        allowed: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`own` is what the daemon keeps for itself; for `allowed` see `Masks`."""
        self._spawner = spawner
        self._home = home
        self._environment = environment
        self._own = own
        self._allowed = allowed
        self._lock = threading.Lock()
        self._views: dict[str, SharedView] = {}
        self._clean_places: set[Path] = set()

    def join(
        self,
        owner_id: str,
        folders: Sequence[Path],
        tried: Row,
        make_network: Callable[[], ViewNetwork],
        *,
        isolated: bool = False,
        outlives: bool = False,
    ) -> SharedView | None:
        """Return the view of a conversation, made as it was tried; its sub-agents join it.

        None if that was no try of a view. That of an isolated conversation may outlive the daemon.
        """
        if tried.program is None or tried.place is None:
            return None
        with self._lock:
            if tried.place not in self._clean_places:
                self._clean_places.add(tried.place)
                sweep(tried.place)
            if owner_id not in self._views:
                facts = (self._home, self._environment)
                masks = Masks(self._spawner, folders, *facts, own=self._own, allowed=self._allowed)
                ground = ground_of(tried.program, folders, self._home, masks)
                ground = replace(ground, caches=dict(cache_places(*facts)))
                place = tried.place / (f"{KEPT}{owner_id}" if outlives else uuid4().hex)
                network = make_network()
                view = View(self._spawner, ground, place, network, outlives=outlives)
                kept = IsolatedView(view, self._spawner, folders, place) if isolated else None
                self._views[owner_id] = SharedView(view, network, kept)
            return self._views[owner_id]

    def leave(self, owner_id: str, shells: Shells) -> None:
        """End the view when the last shells have left it."""
        with self._lock:
            shared = self._views.get(owner_id)
            if shared is None:
                return
            shared.shells.remove(shells)
            shared.network.members.pop(shells, None)
            if shared.shells:
                return
            del self._views[owner_id]
        shared.view.close()


def ground_of(
    program: Path, folders: Sequence[Path], home: Path, masks: Masks | None = None
) -> Ground:
    """Return what the view of a conversation with these folders is made from."""
    private, scratch = ([real_path(place)] for place in (home, Path(tempfile.gettempdir())))
    # What is committed there would not come back, so git itself says that it cannot.
    fixed = git_dirs_outside(folders)
    hidden = [Path("/run")]
    return Ground(program, folders, private, hidden, masks=masks, fixed=fixed, scratch=scratch)


class ViewLandings:
    """The `kernel.extension_points.Landings` of one of the conversations that share a view."""

    def __init__(
        self,
        shared: SharedView,
        shells: Shells,
        step: Exchange,
        documents: Documents,
        watch: Watch,
        host: Spawner,
    ) -> None:
        # The first is the owner: its turns outlast its sub-agents', so it collects what they left.
        self._is_owner = not shared.shells
        shared.shells.append(shells)
        self._shared = shared
        self._shells = shells
        self._step = step
        self._documents = documents
        self._watch = watch
        self._git = GitLanding(host, documents.history.blobs.read_blob)
        self._jobs = frozenset[bytes]()
        """The jobs that ran when it was last collected."""

    def begin(self) -> None:
        """Let commands see what the user sees. Raises `ToolError`."""
        try:
            with self._shared.changing:
                self._step.begin()
        except OSError as exc:
            raise ToolError(f"the sandbox cannot be brought up to date: {exc.strerror}") from exc

    def show(self, paths: Collection[Path]) -> None:
        """Let programs see texts as they are now. Raises `OSError` and `ToolError`."""
        with self._shared.changing:
            self._step.show(paths, is_busy=self._shared.is_busy)

    def collect(self, observed: Json, keep: MakeDurable) -> bool:
        if observed.get("exitCode") is None:
            self._jobs |= self._shells.jobs
            return False  # It still runs, so it is a job.
        return self._collect(observed, keep)

    @property
    def has_news(self) -> bool:
        return not (self._jobs <= self._shells.jobs or self._shared.is_busy)

    def collect_rest(self, observed: Json, keep: MakeDurable, *, ends_turn: bool) -> bool:
        if not (self.has_news or (ends_turn and (self._is_owner or self._shells.jobs))):
            return False
        return self._collect(observed, keep, with_unfinished=ends_turn)

    def left_inside(self) -> Sequence[LeftInside]:
        if not self._is_owner:
            return ()
        ignored, stands = self._step.ignored.items(), self._step.stands
        return [self._left(path, n, seen) for path, n in ignored if (seen := stands(path))]

    def _left(self, path: Path, n_files: int, stands: Stands) -> LeftInside:
        folders = self._documents.folders
        try:
            folders.resolve(str(path), writing=True)
            protected = folders.is_protected(path)
        except ToolError as exc:
            protected = str(exc)
        return LeftInside(
            uri=uri_from_path(folders.as_opened(path)),
            name=folders.name(path),
            n_files=n_files,
            op="delete" if stands == "deleted" else "modify" if path.is_dir() else "add",
            is_folder=path.is_dir() if stands == "deleted" else stands == "folder",
            protected=protected,
        )

    def keep_whole(self, uri: str) -> None:
        opened = path_from_uri(uri)
        if opened is None:
            raise ToolError("it is no file of this machine")
        path = real_path(opened.parent) / opened.name
        self._documents.folders.resolve(str(path), writing=True)
        with self._shared.changing:
            self._step.keep_whole(path)

    def drop(self) -> None:
        with self._shared.changing:
            self._step.drop()

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> LandingTool:
        return LandingTool(
            self._documents,
            self._watch,
            landing,
            self._git.land,
            asks=asks,
            on_end=self._step.on_landed,
        )

    def _collect(self, observed: Json, keep: MakeDurable, *, with_unfinished: bool = False) -> bool:
        with self._shared.changing:
            if self._shared.is_busy:
                return False  # Its changes are collected together, when the last command has ended.
            self._jobs = self._shells.jobs
            planned = self._plan(observed, with_unfinished=with_unfinished)
            if planned is None:
                return False
            if not keep(planned):
                self._step.drop()
                return False
            self._step.settle()
            return True

    def _plan(self, observed: Json, *, with_unfinished: bool) -> LandingPlanned | None:
        try:
            return self._step.plan(observed, with_unfinished=with_unfinished)
        except (ToolError, OSError) as exc:
            logger.warning("the changes of a command cannot be collected: %s", exc)
            left_out = {"what the command changed": f"it cannot be collected: {exc}"}
            return LandingPlanned(changes=(), left_out=left_out, observed=observed)


class LiveText:
    """The changed texts of one conversation. `changed` may be called on any thread."""

    def __init__(
        self, is_running: Callable[[], bool], show: Callable[[Collection[Path]], None]
    ) -> None:
        """`show` puts texts in, by real path; it may block, and raise `OSError` and `ToolError`."""
        self._is_running = is_running
        self._show = show
        self._lock = threading.Lock()
        self._paths: set[Path] = set()
        self._is_at_work = False

    def changed(self, path: Path) -> None:
        """Note that the text at a real path has changed, in the editor or on the disk."""
        if not self._is_running():
            return
        with self._lock:
            self._paths.add(path)
            if self._is_at_work:
                return
            self._is_at_work = True
        try:
            start_thread("live-text", self._work)
        except OSError:
            with self._lock:
                self._is_at_work = False

    def _work(self) -> None:
        while paths := self._take():
            try:
                self._show(paths)
            except (OSError, ToolError) as exc:
                logger.warning("texts that changed are not seen in the view yet: %s", exc)

    def _take(self) -> Collection[Path]:
        """Return what has changed; the thread must end when that is nothing."""
        with self._lock:
            paths, self._paths = self._paths, set()
            self._is_at_work = bool(paths)
            return paths
