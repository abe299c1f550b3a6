"""Exports a conversation and forks it, whichever process has it open.

Nothing here changes the conversation itself. Calls block for some milliseconds per megabyte of log.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oh_daemon.app.conversations import Conversations
from oh_daemon.app.export import Format, render_export
from oh_daemon.app.export_words import ReadBlob
from oh_daemon.app.live import Live
from oh_daemon.contract.branches import ForkParams
from oh_daemon.contract.errors import ConversationNotFoundError, InvalidStateError
from oh_daemon.core.forking import fork_records
from oh_daemon.store.blobs import Blobs
from oh_daemon.store.forks import write_fork


def export(
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
        return live.conversation.log.read_blob
    return Blobs(conversations.place_of(conversation_id, folders) / "blobs").read


def fork(
    conversations: Conversations,
    params: ForkParams,
    folders: Sequence[Path],
    *,
    at_work: bool = True,
) -> Live:
    """Start a conversation with the first part of another one, and open it.

    Raises `InvalidParamsError`, `ConversationNotFoundError`, `StorageError`, and
    `InvalidStateError` when the source is kept in memory only.
    """
    _, records, _ = conversations.read(params.conversation_id, folders)
    try:
        place = conversations.place_of(params.conversation_id, folders)
    except ConversationNotFoundError as exc:
        raise InvalidStateError(
            "the conversation is in memory only, so no branch of it can be kept; start one that "
            "is kept, in a folder"
        ) from exc
    shared = conversations.shared
    begun = fork_records(records, params, shared.clock.now())
    forked_id = write_fork(place, begun, shared.commit, shared.own_logs)
    return conversations.open(forked_id, [place.parents[2]], at_work=at_work)
