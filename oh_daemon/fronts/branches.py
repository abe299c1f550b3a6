"""What is made of a conversation as a whole, whoever has it open: an export.

Nothing here changes the conversation itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oh_daemon.fronts.conversations import Conversations
from oh_daemon.fronts.export import Format, ReadBlob, render_export
from oh_daemon.store.blobs import Blobs


def export(
    conversations: Conversations, conversation_id: str, folders: Sequence[Path], form: Format
) -> str:
    """The whole conversation as one text. Raises `ConversationNotFoundError`, `StorageError`."""
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
        return live.conversation.log.read_blob
    return Blobs(conversations.place_of(conversation_id, folders) / "blobs").read
