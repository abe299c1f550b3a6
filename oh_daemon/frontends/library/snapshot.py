"""What a program can see of a conversation at one moment, and the changes of an isolated one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.sandbox.levels import Level
from oh_daemon.protocol.approvals import Approval
from oh_daemon.protocol.branches import ChangesListResult, ReviewedFile, ReviewParams, ReviewResult
from oh_daemon.protocol.errors import InvalidStateError
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import NamedHunk
from oh_daemon.protocol.status import Usage
from oh_daemon.workspace.paths import uri_from_path


class ConversationStatus(StrEnum):
    """What a conversation is doing; the values are those of the protocol."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSING = "pausing"
    PAUSED = "paused"
    INTERRUPTING = "interrupting"
    ERROR = "error"
    FINISHED = "finished"
    CLOSED = "closed"


class Snapshot(Struct, frozen=True):
    """The state of a conversation at one moment; it does not change afterwards."""

    status: ConversationStatus
    title: str
    usage: Usage
    pending: tuple[Approval, ...]
    """Approvals that wait for `respond`, including those of sub-agents."""
    sandbox: Level
    """What holds the agent's commands."""


def snapshot_of(
    open_conversation: OpenConversation, all_live: Iterable[OpenConversation]
) -> Snapshot:
    """Take a snapshot of one of the live conversations; the others may be its sub-agents."""
    conversation = open_conversation.conversation
    with conversation.journal.condition:
        state = conversation.state
        status = "closed" if conversation.journal.is_closing else state.status
        title, usage = state.title, model_of(Usage, state.usage) if state.usage else Usage()
    states = [each.conversation.state for each in all_live]
    pending_approvals = (a for state in states for a in tuple(state.approvals.values()))
    pending = tuple(model_of(Approval, approval) for approval in pending_approvals)
    level = open_conversation.runtime.shells.level
    return Snapshot(ConversationStatus(status), title, usage, pending, level)


class SettleableChanges(Protocol):
    """What waits in an isolated conversation, here or elsewhere."""

    def list(self, *, with_patches: bool = False) -> ChangesListResult: ...
    def apply(self, params: ReviewParams) -> ReviewResult: ...
    def discard(self, params: ReviewParams) -> ReviewResult: ...


class IsolatedReview(Struct, frozen=True):
    """The changes that wait; the agent must be at rest. Methods raise `UserError`."""

    _changes: SettleableChanges
    _id: str
    _folder: Path

    def list(self) -> tuple[ReviewedFile, ...]:
        """Return the files that differ from the start of the conversation, with patches."""
        return self._changes.list(with_patches=True).files

    def apply(
        self, files: Sequence[str | Path] = (), hunks: Sequence[NamedHunk] = ()
    ) -> ReviewResult:
        """Apply changes to the workspace: these files, these hunks, or all.

        Without names, protected files stay pending. Return the URIs of the applied files, and of
        the others, with the reason.
        """
        return self._changes.apply(self._review_params(files, hunks))

    def discard(
        self, files: Sequence[str | Path] = (), hunks: Sequence[NamedHunk] = ()
    ) -> ReviewResult:
        """Let the conversation have what the workspace has again; see `apply`."""
        return self._changes.discard(self._review_params(files, hunks))

    def _review_params(
        self, files: Sequence[str | Path], hunks: Sequence[NamedHunk]
    ) -> ReviewParams:
        uris = tuple(uri_from_path(self._folder / file) for file in files)
        return ReviewParams(conversation_id=self._id, uris=uris, hunks=tuple(hunks))


def isolated_of(open_conversation: OpenConversation, folders: Sequence[Path]) -> IsolatedReview:
    """Return what waits. Raises `InvalidStateError` if the conversation is not isolated."""
    if open_conversation.isolated_changes is None:
        raise InvalidStateError("the conversation is not isolated; start it with isolated=True")
    return IsolatedReview(open_conversation.isolated_changes, open_conversation.id, folders[0])
