"""Events about undoing: a checkpoint of files was created, a conversation was rolled back."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract


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
