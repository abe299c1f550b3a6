"""Where the files of a conversation are: on the disk or, if it is isolated, apart from it.

What the tools of an isolated conversation change stays there, so nobody is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from oh_daemon.conversations.sandboxes import SharedView
from oh_daemon.conversations.services import Recipe, Shared
from oh_daemon.features.isolation.isolated_files import CHANGES_APART, IsolatedFiles
from oh_daemon.features.isolation.isolated_worktree import Worktree, has_commit
from oh_daemon.features.language.language import Watch
from oh_daemon.features.network.command_network import ViewNetwork
from oh_daemon.features.pending_changes.apply import LandingTool, no_git
from oh_daemon.features.pending_changes.offers import LeftInside
from oh_daemon.features.sandbox.levels import Row, Sandbox
from oh_daemon.features.settings.places import Places
from oh_daemon.kernel.extension_points import MakeDurable
from oh_daemon.kernel.ports import EventLog, Intent, Json, Tool, ToolContext, ToolResult, ToolSpec
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import InvalidStateError, ToolError
from oh_daemon.protocol.status import Isolation
from oh_daemon.storage.event_log import LogFile
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Apart, Folders

_NO_VIEW = (
    "the conversation is isolated in a view, and there is none now ({}): what it "
    "changed waits there. `oh-daemon doctor` says more"
)


@dataclass(frozen=True, slots=True)
class ConversationFiles:
    """The documents of one conversation."""

    disk: Documents
    own: Documents
    """As the conversation has them; the same unless it is isolated."""
    shared_view: SharedView | None = None
    keep: IsolatedFiles | None = None
    refusal: str | None = None
    """Why no command can run."""


def files_of(
    shared: Shared,
    log: EventLog,
    folders: tuple[Path, ...],
    owner_id: str,
    sandbox: Sandbox | None,
    isolated: Isolation | None,
) -> ConversationFiles:
    """Find the view of a conversation, if it has one, and its documents."""
    disk = _documents(shared, log, Folders(folders))
    row = _row(sandbox, isolated)
    shared_view, roots = None, disk.folders.roots
    if row is not None and shared.views is not None:
        is_apart, outlives = isolated is not None, isinstance(log, LogFile)
        network = partial(ViewNetwork, shared.environment, shared.tell_ports)
        shared_view = shared.views.join(
            owner_id, roots, row, network, isolated=is_apart, outlives=is_apart and outlives
        )
    if isolated is None:
        return ConversationFiles(disk, disk, shared_view)
    keep: IsolatedFiles | None = shared_view.isolated if shared_view else None
    if isolated == "worktree":
        places = Places(shared.environment)
        keep = Worktree(shared.spawner, roots, places.worktrees / owner_id)
        try:
            keep.begin(disk)
        except OSError as exc:
            raise ToolError(f"a worktree cannot be made: {exc}") from exc
    if keep is None:
        refusal = _NO_VIEW.format(_why_no_view(sandbox))
        apart = Apart(partial(_refuse, refusal))
        own = Documents(Folders(folders, apart), None, disk.history, shared.locks)
        return ConversationFiles(disk, own, refusal=refusal)
    apart = Apart(partial(keep.open_root, documents=disk), keep.for_programs)
    own = _documents(shared, log, Folders(folders, apart), has_editor=False)
    return ConversationFiles(disk, own, shared_view, keep)


def with_isolation(
    recipe: Recipe, shared: Shared, folders: Sequence[Path], *, isolated: bool
) -> Recipe:
    """Return the recipe of a new conversation with what isolates it, if it is to be `isolated`.

    A sub-agent works where its parent does. Raises `InvalidStateError`.
    """
    if recipe.parent is not None:
        return replace(recipe, isolated=recipe.parent.state.isolated)
    return replace(recipe, isolated=_isolation_in(shared, folders)) if isolated else recipe


def _isolation_in(shared: Shared, folders: Sequence[Path]) -> Isolation:
    if not folders:
        raise InvalidStateError("without a folder there is nothing to isolate; open a folder")
    sandbox = shared.sandbox(folders)
    if shared.views is not None and sandbox.view is not None:
        return "view"
    if all(map(partial(has_commit, shared.spawner), folders)):
        return "worktree"
    why = _why_no_view(sandbox)
    raise InvalidStateError(
        f"nothing can isolate a conversation here: there is no view ({why}), and for a git worktree"
        " each folder must be in a repository with a commit. `oh-daemon doctor` says how to get a"
        " view; or run `git init` and commit"
    )


def _row(sandbox: Sandbox | None, isolated: Isolation | None) -> Row | None:
    if sandbox is None or isolated == "worktree":
        return None
    return sandbox.held_by if isolated is None else sandbox.view


def _documents(
    shared: Shared, log: EventLog, folders: Folders, *, has_editor: bool = True
) -> Documents:
    editor = shared.editor if has_editor else None
    return Documents(folders, editor, EditHistory(folders, log), shared.locks)


def _why_no_view(sandbox: Sandbox | None) -> str:
    wanted = sandbox.setting if sandbox else "off"
    return (sandbox and sandbox.cause) or f"the setting `sandbox` is {wanted!r}"


def _refuse(refusal: str, _folder: Path) -> int:
    raise ToolError(refusal)


@dataclass(frozen=True, slots=True)
class NoLandings:
    """Implements `kernel.extension_points.Landings` where the user lands changes, not the turn."""

    keep: IsolatedFiles
    documents: Documents
    watch: Watch

    def begin(self) -> None:
        """Let commands see what has changed outside. Raises `ToolError`."""
        try:
            self.keep.begin(self.documents)
        except OSError as exc:
            raise ToolError(f"the sandbox cannot be brought up to date: {exc.strerror}") from exc

    def collect(self, observed: Json, keep: MakeDurable) -> bool:  # noqa: ARG002 - nothing lands.
        with suppress(OSError, ToolError):  # It is noted with the next command.
            self.keep.end(self.documents)
        return False

    has_news = False

    def collect_rest(self, observed: Json, keep: MakeDurable, *, ends_turn: bool) -> bool:  # noqa: ARG002
        return False

    def left_inside(self) -> Sequence[LeftInside]:
        return ()

    def keep_whole(self, uri: str) -> None:
        raise ToolError(f"{uri!r} stays in the conversation until the user lands it")

    def drop(self) -> None: ...

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> LandingTool:
        return LandingTool(self.documents, self.watch, landing, no_git, asks=asks)


@dataclass(frozen=True, slots=True)
class ApartTool:
    """A tool that changes files, in an isolated conversation: nobody needs to be asked."""

    tool: Tool
    landings: NoLandings

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    def plan(self, args: Json) -> Intent:
        intent = self.tool.plan(args)
        return (
            replace(intent, confinement=CHANGES_APART, outside_floor=False)
            if intent.footprint.writes
            else intent
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if context.confinement:
            self.landings.begin()
        return self.tool.run(args, context)
