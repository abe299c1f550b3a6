"""Events about what commands changed, and about taking back."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.git import RepositoryLanding
from oh_daemon.contract.items import FileChange


class LandingPlanned(Contract):
    """A command ended, and what it changed in its view waits to land in the open folders."""

    type: Literal["landing.planned"] = "landing.planned"
    changes: tuple[FileChange, ...]
    """From what the command began with, to what it left."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """What does not land, by path, with the reason."""
    git: tuple[RepositoryLanding, ...] = ()
    """What it did to repositories, which lands after all changes of files have."""
    notes: tuple[str, ...] = ()
    """What the model is told beside that."""
    observed: dict[str, Any]
    """The fields of the item that the command itself gave: its output, its exit code."""


class CheckpointCreated(Contract):
    """A command or tool changed files; the store has the folders before and after it."""

    type: Literal["checkpoint.created"] = "checkpoint.created"
    before: dict[str, str]
    """The name of each folder's tree, by the folder's URI."""
    after: dict[str, str]
    n_files: int
    saved: dict[str, str] | None = None
    """Texts that the user saved meanwhile, by URI; only later changes to those files are undone."""


class ConversationRolledBack(Contract):
    """This item and all later ones no longer count, nor do the events after `toSeq`."""

    type: Literal["conversation.rolledBack"] = "conversation.rolledBack"
    to_seq: int
    to_item_id: str
    files: Literal["keep", "restore"]
