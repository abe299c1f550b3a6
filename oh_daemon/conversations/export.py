"""Exports a conversation that is open here, or that lies on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oh_daemon.features.export.transcript import ReadBlob
from oh_daemon.storage.blobs import Blobs

if TYPE_CHECKING:
    from oh_daemon.conversations.conversations import Conversations
from oh_daemon.features.export.export import Format, render_export


def export_conversation(
    conversations: Conversations, conversation_id: str, folders: Sequence[Path], form: Format
) -> str:
    """Render the conversation as one text. Raises `ConversationNotFoundError`, `StorageError`."""
    _, records, _ = conversations.read(conversation_id, folders)
    return render_export(
        conversation_id,
        records,
        form,
        masker=conversations.shared.masker,
        read_blob=_blobs_of(conversations, conversation_id, folders),
    )


def _blobs_of(
    conversations: Conversations, conversation_id: str, folders: Sequence[Path]
) -> ReadBlob:
    live = conversations.find_live(conversation_id)
    if live is not None:
        return live.conversation.journal.log.read_blob
    return Blobs(conversations.place_of(conversation_id, folders) / "blobs").read
