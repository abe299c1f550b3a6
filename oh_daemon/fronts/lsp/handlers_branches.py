"""The methods about a conversation as a whole: export, fork, rollback, checkpoints.

Each runs on a worker thread, since it reads the log from its start.
"""

from __future__ import annotations

from pathlib import Path

from oh_daemon.app import history
from oh_daemon.app.description import describe
from oh_daemon.app.export import export_conversation
from oh_daemon.contract import branches as m
from oh_daemon.contract.errors import PayloadTooLargeError
from oh_daemon.contract.messages import ConversationResult
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, in_turn, on_open_worker, on_worker

_MAX_EXPORT_CHARS = 32 << 20
"""A client holds the whole answer in memory, in several copies while it parses it."""


def export(daemon: Daemon, params: m.ExportParams, folders: list[Path]) -> m.ExportResult:
    text = export_conversation(daemon.conversations, params.conversation_id, folders, params.format)
    if len(text) > _MAX_EXPORT_CHARS:
        raise PayloadTooLargeError(
            f"the export has {len(text) >> 20} MiB, too much for an answer; run "
            f"`oh-daemon export {params.conversation_id} --format {params.format}`"
        )
    return m.ExportResult(text=text)


def fork(daemon: Daemon, params: m.ForkParams, folders: list[Path]) -> ConversationResult:
    live = history.fork(daemon.conversations, params, folders)
    daemon.publisher.on_forked(live.conversation.journal)
    return ConversationResult(conversation=describe(live.conversation.journal))


HANDLERS: dict[str, Handler] = {
    "conversation/export": on_worker(export),
    "conversation/fork": on_worker(fork),
    "conversation/rollback": in_turn(history.rollback),
    "checkpoint/list": on_open_worker(lambda live, _params: history.checkpoints(live)),
    "checkpoint/restore": in_turn(history.restore_checkpoint),
}
