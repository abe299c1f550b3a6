"""The `terminal/*` and `port/*` methods: people watch terminals, stop commands, reach servers."""

from __future__ import annotations

from oh_daemon.conversations.open_conversation import Live
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.protocol.messages import Empty


def terminal_list(live: Live | None) -> m.TerminalListResult:
    return m.TerminalListResult(terminals=live.workbench.shells.listed() if live else ())


def terminal_read(live: Live, params: m.TerminalReadParams) -> m.TerminalReadResult:
    shells = _shells(live, params)
    shell, screen = shells.existing(params.terminal_id), shells.screen(params.terminal_id)
    is_running = shell.is_running
    data, end = screen.read(params.offset, params.limit)
    eof = not is_running and end == screen.end
    return m.TerminalReadResult(data=data, next_offset=end, eof=eof)


def terminal_write(live: Live, params: m.TerminalWriteParams) -> Empty:
    shell = _shells(live, params).existing(params.terminal_id)
    if not shell.is_running:
        raise InvalidStateError(
            f"nothing runs in terminal {params.terminal_id!r}, so nothing reads what is typed"
        )
    shell.type_for_user(params.data)
    return Empty()


def terminal_kill(live: Live, params: m.TerminalKillParams) -> Empty:
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


def port_list(live: Live) -> m.PortListResult:
    network = live.workbench.network
    return m.PortListResult(ports=network.ports() if network else ())


def port_open(live: Live, params: m.PortOpenParams) -> m.PortOpenResult:
    network = live.workbench.network
    if network is None or params.port not in {each.port for each in network.ports()}:
        what = f"no command listens on port {params.port} in a view; port/list has the ports"
        raise InvalidParamsError.at("port", what, "unknown")
    try:
        return m.PortOpenResult(address=network.forward(params.port))
    except OSError as exc:
        raise InvalidStateError(f"port {params.port} cannot be opened: {exc.strerror}") from exc
