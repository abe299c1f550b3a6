"""Handlers of `terminal/*`: a person watches terminals, types into them and stops commands."""

from __future__ import annotations

from oh_daemon.features.terminal.shell import Shells
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError
from oh_daemon.protocol.messages import Empty


def terminal_list(shells: Shells | None) -> m.TerminalListResult:
    """List the terminals of a conversation; none if it is not open."""
    return m.TerminalListResult(terminals=shells.terminal_infos() if shells else ())


def terminal_read(shells: Shells, params: m.TerminalReadParams) -> m.TerminalReadResult:
    _require(shells, params)
    shell, screen = shells.existing(params.terminal_id), shells.screen(params.terminal_id)
    is_running = shell.is_running
    data, end = screen.read(params.offset, params.limit)
    eof = not is_running and end == screen.end
    return m.TerminalReadResult(data=data, next_offset=end, eof=eof)


def terminal_write(shells: Shells, params: m.TerminalWriteParams) -> Empty:
    _require(shells, params)
    shell = shells.existing(params.terminal_id)
    if not shell.is_running:
        raise InvalidStateError(
            f"nothing runs in terminal {params.terminal_id!r}, so nothing reads what is typed"
        )
    shell.type_for_user(params.data)
    return Empty()


def terminal_kill(shells: Shells, params: m.TerminalKillParams) -> Empty:
    _require(shells, params)
    shells.existing(params.terminal_id).stop_for_user()
    return Empty()


def _require(shells: Shells, params: m.OfTerminal) -> None:
    """Raise `InvalidParamsError` if the conversation has no such terminal."""
    names = [info.terminal_id for info in shells.terminal_infos()]
    if params.terminal_id not in names:
        message = f"it has {', '.join(names) or 'none'}"
        what = f"the conversation has no terminal {params.terminal_id!r}; {message}"
        raise InvalidParamsError.at("terminalId", what, "unknown")
