"""Parameters and results about a conversation as a whole: given away, branched, taken back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import Conflict, ConversationInfo, OfConversation


class ExportParams(OfConversation):
    """All of a conversation as one text, without opening or locking it."""

    format: Literal["jsonl", "markdown", "html"] = "markdown"


class ExportResult(Contract):
    text: str
    """At most 32 MiB; secrets that are known by now are masked."""


class ForkParams(OfConversation):
    """Begin another conversation that has the first part of this one; this one stays as it is."""

    at_item_id: str | None = None
    """The last item that both have; without it all that has ended."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class RestoreResult(Contract):
    """URIs of files that are (with `dryRun`: would be) as they were; the others stay."""

    restored: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    """Files that somebody else changed at the same lines since, and why each was left alone."""


class RollbackParams(OfConversation):
    """Go back to before a message: it and all after it no longer count."""

    to_item_id: str
    """A `userMessage` item."""
    files: Literal["keep", "restore"] = "keep"
    """What becomes of what the agent did to files since then."""
    dry_run: bool = False
    """Only say what would become of the files."""


class RollbackResult(RestoreResult):
    conversation: ConversationInfo


class CheckpointListParams(OfConversation):
    """The moments before the agent changed files, oldest first."""


class Checkpoint(Contract):
    id: str
    """That of the item that changed files next."""
    created_at: str
    title: str
    """What was done then."""
    n_files: int


class CheckpointListResult(Contract):
    checkpoints: tuple[Checkpoint, ...]
    problem: str | None = None
    """Why changes by commands have no checkpoints, or which files are left out."""


class CheckpointRestoreParams(OfConversation):
    """Take back what the agent did to files since then; the conversation goes on, and is told."""

    checkpoint_id: str
    dry_run: bool = False
