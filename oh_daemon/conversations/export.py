"""Exports a conversation that is open here, or that lies on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.features.export.export import render_export
from oh_daemon.features.export.transcript import ReadBlob
from oh_daemon.protocol.branches import ExportParams, ExportResult
from oh_daemon.protocol.errors import PayloadTooLargeError
from oh_daemon.storage.blobs import Blobs

_MAX_EXPORT_CHARS = 32 << 20
"""A client holds the whole answer in memory, in several copies while it parses it."""


def conversation_export(
    conversations: Conversations, params: ExportParams, folders: Sequence[Path]
) -> ExportResult:
    """Render a conversation as one text.

    Raises `ConversationNotFoundError`, `StorageError` and `PayloadTooLargeError`.
    """
    _, records, _ = conversations.read(params.conversation_id, folders)
    text = render_export(
        params.conversation_id,
        records,
        params.format,
        masker=conversations.context.services.masker,
        read_blob=_blobs_of(conversations, params.conversation_id, folders),
    )
    if len(text) > _MAX_EXPORT_CHARS:
        raise PayloadTooLargeError(
            f"the export has {len(text) >> 20} MiB, too much for an answer; run "
            f"`oh-daemon export {params.conversation_id} --format {params.format}`"
        )
    return ExportResult(text=text)


def _blobs_of(
    conversations: Conversations, conversation_id: str, folders: Sequence[Path]
) -> ReadBlob:
    open_conversation = conversations.find_open(conversation_id)
    if open_conversation is not None:
        return open_conversation.conversation.journal.log.read_blob
    return Blobs(conversations.place_of(conversation_id, folders) / "blobs").read
