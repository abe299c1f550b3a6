"""Parameters and results of exporting, forking and rolling back, and of checkpoints."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import Conflict, ConversationInfo, OfConversation


class ExportParams(OfConversation):
    """Export a whole conversation as one text, without opening or locking it."""

    format: Literal["jsonl", "markdown", "html", "atif"] = "markdown"


class ExportResult(Contract):
    text: str
    """At most 32 MiB; all secrets known at the time of the export are masked."""


class ForkParams(OfConversation):
    """Start a new conversation with the first part of this one, which does not change."""

    at_item_id: str | None = None
    """The last item that both share; by default, the new one has everything that has ended."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class RestoreResult(Contract):
    """URIs of the files that were restored or, with `dryRun`, would be; others do not change."""

    restored: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    """Files with later changes by others at the same lines, and why each was left alone."""


class RollbackParams(OfConversation):
    """Go back to before a message: it and everything after it no longer count."""

    to_item_id: str
    """Id of a `userMessage` item."""
    files: Literal["keep", "restore"] = "keep"
    """Whether to keep or undo the agent's changes to files since then."""
    dry_run: bool = False
    """Only report what would happen to the files."""


class RollbackResult(RestoreResult):
    conversation: ConversationInfo


class CheckpointListParams(OfConversation):
    """List the points just before the agent changed files, oldest first."""


class Checkpoint(Contract):
    id: str
    """Id of the item that changed files next."""
    created_at: str
    title: str
    """What that item did."""
    n_files: int


class CheckpointListResult(Contract):
    checkpoints: tuple[Checkpoint, ...]
    problem: str | None = None
    """Why changes made by commands have no checkpoints, or which files are left out."""


class CheckpointRestoreParams(OfConversation):
    """Undo the agent's changes to files since a checkpoint; the model is told."""

    checkpoint_id: str
    dry_run: bool = False
