"""The methods about a conversation as a whole: export, fork.

Each works on a thread, since it reads the log from its start.
"""

from __future__ import annotations

from pathlib import Path

from oh_daemon.contract import branches as m
from oh_daemon.contract.errors import PayloadTooLargeError
from oh_daemon.fronts import branches
from oh_daemon.fronts.description import describe
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_worker

_MAX_EXPORT_CHARS = 32 << 20
"""A client holds an answer in memory, several times while it parses it."""


def export(daemon: Daemon, params: m.ExportParams, folders: list[Path]) -> m.ExportResult:
    text = branches.export(daemon.conversations, params.conversation_id, folders, params.format)
    if len(text) > _MAX_EXPORT_CHARS:
        raise PayloadTooLargeError(
            f"the export has {len(text) >> 20} MiB, too much for an answer; run "
            f"`oh-daemon export {params.conversation_id} --format {params.format}`"
        )
    return m.ExportResult(text=text)


def fork(daemon: Daemon, params: m.ForkParams, folders: list[Path]) -> m.ForkResult:
    live = branches.fork(daemon.conversations, params, folders)
    daemon.publisher.on_forked(live.conversation)
    return m.ForkResult(conversation=describe(live.conversation))


HANDLERS: dict[str, Handler] = {
    "conversation/export": on_worker(export),
    "conversation/fork": on_worker(fork),
}
