"""Events about the way back: what was kept of files, and that a conversation went back."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract


class CheckpointCreated(Contract):
    """What was run changed files; the folders before and after are in the conversation's store."""

    type: Literal["checkpoint.created"] = "checkpoint.created"
    before: dict[str, str]
    """The name of each folder's tree, by its URI."""
    after: dict[str, str]
    n_files: int
    saved: dict[str, str] | None = None
    """What the user saved meanwhile, by URI: only what came of it after that is not theirs."""


class ConversationRolledBack(Contract):
    """This item and all after it no longer count, nor do the events after `toSeq`."""

    type: Literal["conversation.rolledBack"] = "conversation.rolledBack"
    to_seq: int
    to_item_id: str
    files: Literal["keep", "restore"]
