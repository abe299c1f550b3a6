"""The methods about a conversation as a whole: export, fork, rollback, checkpoints, usage.

Each runs on a worker thread, since it reads the log from its start.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from oh_daemon.conversations import history
from oh_daemon.conversations.description import describe
from oh_daemon.conversations.export import export_conversation
from oh_daemon.conversations.open_conversation import Live
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.kernel.usage import Bill
from oh_daemon.protocol import branches as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import PayloadTooLargeError
from oh_daemon.protocol.messages import ConversationResult
from oh_daemon.protocol.side_questions import UsageReadParams, UsageReadResult

_MAX_EXPORT_CHARS = 32 << 20
"""A client holds the whole answer in memory, in several copies while it parses it."""


def conversation_export(
    daemon: Daemon, params: m.ExportParams, folders: list[Path]
) -> m.ExportResult:
    text = export_conversation(daemon.conversations, params.conversation_id, folders, params.format)
    if len(text) > _MAX_EXPORT_CHARS:
        raise PayloadTooLargeError(
            f"the export has {len(text) >> 20} MiB, too much for an answer; run "
            f"`oh-daemon export {params.conversation_id} --format {params.format}`"
        )
    return m.ExportResult(text=text)


def conversation_fork(
    daemon: Daemon, params: m.ForkParams, folders: list[Path]
) -> ConversationResult:
    live = history.fork(daemon.conversations, params, folders)
    daemon.publisher.on_forked(live.conversation.journal)
    return ConversationResult(conversation=describe(live.conversation.journal))


def conversation_rollback(live: Live, params: m.RollbackParams) -> m.RollbackResult:
    return history.rollback(live, params)


def checkpoint_list(live: Live) -> m.CheckpointListResult:
    return history.checkpoints(live)


def checkpoint_restore(live: Live, params: m.CheckpointRestoreParams) -> m.RestoreResult:
    return history.restore_checkpoint(live, params)


def usage_read(daemon: Daemon, params: UsageReadParams, folders: list[Path]) -> UsageReadResult:
    conversations, bill = daemon.conversations, Bill(params.since or "")
    records: Iterable[plain.Record]
    if params.conversation_id is None:
        records = (r for each in conversations.catalogs(folders) for r in each.usage_records())
    else:
        records = conversations.read(params.conversation_id, folders)[1]
    for record in records:
        bill.add(record)
    return UsageReadResult.model_validate(bill.rendered())
