"""The methods about models: list them, ask one on the side, read their usage."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

from oh_daemon.app.live import Live
from oh_daemon.contract import asking as a
from oh_daemon.contract import daemon_messages as m
from oh_daemon.contract import plain
from oh_daemon.contract.errors import InvalidStateError, RequestCancelledError
from oh_daemon.core.cancel import Cancelled
from oh_daemon.core.usage import Bill
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_open, on_worker
from oh_daemon.fronts.wire.dispatch import RequestContext
from oh_daemon.fronts.wire.serial import on_own_thread


def model_list(
    daemon: Daemon, _params: m.ModelListParams, _context: RequestContext
) -> m.ModelListResult:
    return m.ModelListResult(models=daemon.models.listed(), default=daemon.models.default_name())


@on_open
def ask(
    _daemon: Daemon, live: Live, params: a.AskParams, context: RequestContext
) -> Future[a.AskResult]:
    def work() -> a.AskResult:
        try:
            answer = live.agent.ask(params.question, context.cancel)
        except Cancelled:
            if live.conversation.journal.is_closing:
                raise InvalidStateError("the conversation was closed meanwhile") from None
            raise RequestCancelledError("cancelled by the client") from None
        return a.AskResult(text=answer.text, usage=answer.usage)

    return on_own_thread(f"aside-{live.id[:8]}", work)


def usage_read(daemon: Daemon, params: a.UsageReadParams, folders: list[Path]) -> a.UsageReadResult:
    conversations, bill = daemon.conversations, Bill(params.since or "")
    records: Iterable[plain.Record]
    if params.conversation_id is None:
        records = (r for each in conversations.catalogs(folders) for r in each.usage_records())
    else:
        records = conversations.read(params.conversation_id, folders)[1]
    for record in records:
        bill.add(record)
    return a.UsageReadResult.model_validate(bill.rendered())


HANDLERS: dict[str, Handler] = {
    "model/list": model_list,
    "conversation/ask": ask,
    "usage/read": on_worker(usage_read),
}
