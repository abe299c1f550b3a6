"""Parameters and results of exporting, forking and rolling back, of checkpoints, and of review."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.items import FileChange, GitChange, Hunk, NamedHunk
from oh_daemon.protocol.messages import Conflict, ConversationInfo, OfConversation


class ExportParams(OfConversation):
    """Export a whole conversation as one text, without opening or locking it."""

    format: Literal["jsonl", "markdown", "html", "atif"] = "markdown"
    """The log itself, Markdown, a page without scripts, or a trajectory (ATIF 1.8)."""


class ExportResult(Contract):
    text: str
    """At most 32 MiB; all secrets known at the time of the export are masked."""


class ForkParams(OfConversation):
    """Start a new conversation with the first part of this one, which does not change."""

    at_item_id: str | None = None
    """The last item that both share; by default, the new one has everything that has ended."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Title of the new conversation; by default that of this one."""


class RestoreResult(Contract):
    """URIs of the files that were restored or, with `dryRun`, would be; others do not change."""

    restored: tuple[str, ...]
    """URIs of the files."""
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
    """How many files it changed."""


class CheckpointListResult(Contract):
    checkpoints: tuple[Checkpoint, ...]
    """Oldest first."""
    problem: str | None = None
    """Why changes made by commands have no checkpoints, or which files are left out."""


class CheckpointRestoreParams(OfConversation):
    """Undo the agent's changes to files since a checkpoint; the model is told."""

    checkpoint_id: str
    """Id from `checkpoint/list`."""
    dry_run: bool = False
    """Only report what would happen."""


class ChangesListParams(OfConversation):
    """List the files that the agent changed, with the changes that wait for review."""

    turn_id: str | None = None
    """List what this turn changed instead, reviewed or not."""


class ReviewedFile(FileChange):
    """All pending changes to a file, as one change."""

    state: Literal["pending", "kept", "undone", "applied", "discarded", "conflict"]
    """State of the file as a whole; `conflict` if it is pending and the same lines have changed."""
    by_command: bool | None = None
    """Set if some of it was changed by a command, not by an edit."""


class ChangesListResult(Contract):
    files: tuple[ReviewedFile, ...]
    omitted: dict[str, str] | None = None
    """In an isolated conversation: what can only be discarded, by URI, with the reason."""
    git: tuple[GitChange, ...] | None = None
    """In an isolated conversation: commits and the like, which are applied after all files."""


class ChangesDiffParams(OfConversation):
    """Show the changes to a file that wait for review, with their hunks."""

    uri: str
    turn_id: str | None = None
    """Show what this turn did to the file instead; `hunks` is then empty."""


class ChangesDiffResult(Contract):
    """Both texts use LF as line ending; a text is absent when there was no file."""

    old_text: str | None = None
    """The text without the pending changes."""
    new_text: str | None = None
    """The text with the pending changes."""
    patch: str
    """The difference as a unified diff."""
    hunks: tuple[Hunk, ...]
    """The parts that can be kept, undone, applied or discarded one by one."""


class ReviewParams(OfConversation):
    """Whole files, or hunks as `changes/diff` lists them; without both, all pending changes."""

    uris: tuple[str, ...] = ()
    """Whole files."""
    hunks: tuple[NamedHunk, ...] = ()
    """Single hunks."""


class KeepParams(ReviewParams):
    """Keep changes, which ends their review; the conversation is not isolated."""


class UndoParams(ReviewParams):
    """Undo changes through the editor, leaving later changes of the user in place."""


class ApplyParams(ReviewParams):
    """Apply changes of an isolated conversation to its folders, merged with the user's own."""


class DiscardParams(ReviewParams):
    """Discard changes of an isolated conversation: it sees the files of its folders again."""


class ReviewResult(Contract):
    """The files that were changed or settled, and those left unchanged, with the reason."""

    done: tuple[str, ...]
    """URIs of the files."""
    conflicts: tuple[Conflict, ...]
    """Files that were left as they are."""
