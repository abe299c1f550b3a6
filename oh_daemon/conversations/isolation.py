"""Where the files of a conversation are: on the disk or, if it is isolated, apart from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.conversations.sandboxes import SharedSandbox
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.features.isolation.isolated_files import IsolatedFiles
from oh_daemon.features.isolation.isolated_worktree import Worktree, has_commit
from oh_daemon.features.network.command_network import OverlayNetwork
from oh_daemon.features.sandbox.levels import Sandbox, Trial
from oh_daemon.features.settings.places import Places
from oh_daemon.kernel.ports import EventLog
from oh_daemon.protocol.errors import InvalidStateError, ToolError
from oh_daemon.protocol.status import Isolation
from oh_daemon.storage.event_log import LogFile
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders, IsolatedFolders

_NO_VIEW = (
    "the conversation is isolated in a sandbox, and there is none now ({}): what it "
    "changed waits there. `oh-daemon doctor` says more"
)


class ConversationFiles(Struct, frozen=True):
    """The documents of one conversation."""

    disk: Documents
    own: Documents
    """As the conversation has them; the same unless it is isolated."""
    shared_sandbox: SharedSandbox | None = None
    isolated_files: IsolatedFiles | None = None
    refusal: str | None = None
    """Why no command can run."""


def files_of(
    context: ConversationContext,
    log: EventLog,
    folders: tuple[Path, ...],
    owner_id: str,
    sandbox: Sandbox | None,
    isolation: Isolation | None,
) -> ConversationFiles:
    """Find the sandbox of a conversation, if it has one, and its documents."""
    services, disk = context.services, _documents(context, log, Folders(folders))
    row = _row(sandbox, isolation)
    shared_sandbox, roots = None, disk.folders.roots
    if row is not None:
        is_apart, outlives = isolation is not None, isinstance(log, LogFile)
        commands, report = services.commands, context.client.report_ports
        network = partial(OverlayNetwork, lambda: commands.current().values, report)
        shared_sandbox = services.sandboxes.join(
            owner_id, roots, row, network, is_isolated=is_apart, outlives=is_apart and outlives
        )
    if isolation is None:
        return ConversationFiles(disk, disk, shared_sandbox)
    files: IsolatedFiles | None = shared_sandbox.isolated_files if shared_sandbox else None
    if isolation == "worktree":
        places = Places(services.environment)
        files = Worktree(services.spawner, roots, places.worktrees / owner_id)
        try:
            files.begin(disk)
        except OSError as exc:
            raise ToolError(f"a worktree cannot be made: {exc}") from exc
    if files is None:
        refusal = _NO_VIEW.format(_why_no_overlay(sandbox))
        apart = IsolatedFolders(partial(_refuse, refusal))
        own = Documents(Folders(folders, apart), None, disk.history, services.locks)
        return ConversationFiles(disk, own, refusal=refusal)
    apart = IsolatedFolders(partial(files.open_root, documents=disk), files.for_programs)
    own = _documents(context, log, Folders(folders, apart), has_editor=False)
    return ConversationFiles(disk, own, shared_sandbox, files)


def with_isolation(
    config: AgentConfig, context: ConversationContext, folders: Sequence[Path], *, is_isolated: bool
) -> AgentConfig:
    """Return the recipe of a new conversation with what isolates it, if it is to be `isolated`.

    A sub-agent works where its parent does. Raises `InvalidStateError`.
    """
    if config.parent is not None:
        return replace(config, isolated=config.parent.state.isolation)
    return replace(config, isolated=_isolation_in(context, folders)) if is_isolated else config


def _isolation_in(context: ConversationContext, folders: Sequence[Path]) -> Isolation:
    if not folders:
        raise InvalidStateError("without a folder there is nothing to isolate; open a folder")
    sandbox = context.user.sandbox.level(folders)
    if sandbox.overlay is not None:
        return "overlay"
    if all(map(partial(has_commit, context.services.spawner), folders)):
        return "worktree"
    why = _why_no_overlay(sandbox)
    raise InvalidStateError(
        f"nothing can isolate a conversation here: there is no overlay ({why}), and for a git"
        " worktree each folder must be in a repository with a commit. `oh-daemon"
        " doctor` says how to get an overlay; or run `git init` and commit"
    )


def _row(sandbox: Sandbox | None, isolation: Isolation | None) -> Trial | None:
    if sandbox is None or isolation == "worktree":
        return None
    return sandbox.enforced_by if isolation is None else sandbox.overlay


def _documents(
    context: ConversationContext, log: EventLog, folders: Folders, *, has_editor: bool = True
) -> Documents:
    editor = context.client.editor if has_editor else None
    return Documents(folders, editor, EditHistory(folders, log), context.services.locks)


def _why_no_overlay(sandbox: Sandbox | None) -> str:
    expected_level = sandbox.setting if sandbox else "off"
    return (sandbox and sandbox.cause) or f"the setting `sandbox` is {expected_level!r}"


def _refuse(refusal: str, _folder: Path) -> int:
    raise ToolError(refusal)
