"""The `port/*` methods: what commands listen on in their view, and how the user reaches it."""

from __future__ import annotations

from oh_daemon.app.live import Live
from oh_daemon.contract import daemon_messages as m
from oh_daemon.contract.errors import InvalidParamsError, InvalidStateError
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_open, on_open_worker
from oh_daemon.fronts.wire.dispatch import RequestContext


@on_open
def list_(
    _daemon: Daemon, live: Live, _params: m.PortListParams, _context: RequestContext
) -> m.PortListResult:
    network = live.workbench.network
    return m.PortListResult(ports=network.ports() if network else ())


@on_open_worker
def open_(live: Live, params: m.PortOpenParams) -> m.PortOpenResult:
    network = live.workbench.network
    if network is None or params.port not in {each.port for each in network.ports()}:
        what = f"no command listens on port {params.port} in a view; port/list has the ports"
        raise InvalidParamsError.at("port", what, "unknown")
    try:
        return m.PortOpenResult(address=network.forward(params.port))
    except OSError as exc:
        raise InvalidStateError(f"port {params.port} cannot be opened: {exc.strerror}") from exc


HANDLERS: dict[str, Handler] = {"port/list": list_, "port/open": open_}
