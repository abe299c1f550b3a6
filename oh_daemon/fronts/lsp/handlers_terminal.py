"""The `terminal/*` methods: people look into the agent's terminals, type and end what runs."""

from __future__ import annotations

from concurrent.futures import Future

from oh_daemon.contract import daemon_messages as m
from oh_daemon.contract.errors import InvalidParamsError, InvalidStateError
from oh_daemon.contract.messages import Empty
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_open
from oh_daemon.fronts.lsp.rpc import RequestContext
from oh_daemon.fronts.wiring import Live
from oh_daemon.workspace.shell import Shells


def list_(
    daemon: Daemon, params: m.TerminalListParams, context: RequestContext
) -> Future[m.TerminalListResult] | m.TerminalListResult:
    conversation_id = params.conversation_id
    is_opening = conversation_id in daemon.in_turn.ids()
    if is_opening or daemon.conversations.find_live(conversation_id):
        return _listed(daemon, params, context)
    return m.TerminalListResult(terminals=())


@on_open
def _listed(_daemon: Daemon, live: Live, _params: object, _context: object) -> m.TerminalListResult:
    return m.TerminalListResult(terminals=live.workbench.shells.listed())


def read(
    daemon: Daemon, live: Live, params: m.TerminalReadParams, _context: RequestContext
) -> Future[m.TerminalReadResult]:
    shells = _shells(live, params)
    shell, screen = shells.existing(params.terminal_id), shells.screen(params.terminal_id)

    def work() -> m.TerminalReadResult:
        is_running = shell.is_running
        data, end = screen.read(params.offset, params.limit)
        eof = not is_running and end == screen.end
        return m.TerminalReadResult(data=data, next_offset=end, eof=eof)

    return daemon.workers.submit(work)


def write(
    _daemon: Daemon, live: Live, params: m.TerminalWriteParams, _context: RequestContext
) -> Empty:
    shell = _shells(live, params).existing(params.terminal_id)
    if not shell.is_running:
        raise InvalidStateError(
            f"nothing runs in terminal {params.terminal_id!r}, so nothing reads what is typed"
        )
    shell.type_for_user(params.data)
    return Empty()


def kill(
    daemon: Daemon, live: Live, params: m.TerminalKillParams, _context: RequestContext
) -> Future[Empty]:
    shell = _shells(live, params).existing(params.terminal_id)

    def work() -> Empty:
        shell.stop_for_user()
        return Empty()

    return daemon.workers.submit(work)


def _shells(live: Live, params: m.OfTerminal) -> Shells:
    """The shells of this conversation, among them the wanted one."""
    shells = live.workbench.shells
    names = [info.terminal_id for info in shells.listed()]
    if params.terminal_id not in names:
        known = f"it has {', '.join(names) or 'none'}"
        what = f"the conversation has no terminal {params.terminal_id!r}; {known}"
        raise InvalidParamsError.at("terminalId", what, "unknown")
    return shells


HANDLERS: dict[str, Handler] = {
    "terminal/list": list_,
    "terminal/read": on_open(read),
    "terminal/write": on_open(write),
    "terminal/kill": on_open(kill),
}
