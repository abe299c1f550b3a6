"""The `terminal/*` methods: people watch the agent's terminals, type into them, stop commands."""

from __future__ import annotations

from concurrent.futures import Future

from oh_daemon.app.live import Live
from oh_daemon.contract import daemon_messages as m
from oh_daemon.contract.errors import InvalidParamsError, InvalidStateError
from oh_daemon.contract.messages import Empty
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_open, on_open_worker
from oh_daemon.fronts.wire.dispatch import RequestContext
from oh_daemon.workspace.shell import Shells


def list_(
    daemon: Daemon, params: m.TerminalListParams, context: RequestContext
) -> Future[m.TerminalListResult] | m.TerminalListResult:
    conversation_id = params.conversation_id
    is_opening = conversation_id in daemon.serial.ids()
    if is_opening or daemon.conversations.find_live(conversation_id):
        return _listed(daemon, params, context)
    return m.TerminalListResult(terminals=())


@on_open
def _listed(_daemon: Daemon, live: Live, _params: object, _context: object) -> m.TerminalListResult:
    return m.TerminalListResult(terminals=live.workbench.shells.listed())


@on_open_worker
def read(live: Live, params: m.TerminalReadParams) -> m.TerminalReadResult:
    shells = _shells(live, params)
    shell, screen = shells.existing(params.terminal_id), shells.screen(params.terminal_id)
    is_running = shell.is_running
    data, end = screen.read(params.offset, params.limit)
    eof = not is_running and end == screen.end
    return m.TerminalReadResult(data=data, next_offset=end, eof=eof)


@on_open
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


@on_open_worker
def kill(live: Live, params: m.TerminalKillParams) -> Empty:
    _shells(live, params).existing(params.terminal_id).stop_for_user()
    return Empty()


def _shells(live: Live, params: m.OfTerminal) -> Shells:
    """Return the shells. Raises `InvalidParamsError` if the wanted one is not among them."""
    shells = live.workbench.shells
    names = [info.terminal_id for info in shells.listed()]
    if params.terminal_id not in names:
        known = f"it has {', '.join(names) or 'none'}"
        what = f"the conversation has no terminal {params.terminal_id!r}; {known}"
        raise InvalidParamsError.at("terminalId", what, "unknown")
    return shells


HANDLERS: dict[str, Handler] = {
    "terminal/list": list_,
    "terminal/read": read,
    "terminal/write": write,
    "terminal/kill": kill,
}
