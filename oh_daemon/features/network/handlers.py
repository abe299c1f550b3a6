"""Handlers of `port/*`: a person reaches servers that commands started in the sandbox."""

from __future__ import annotations

from oh_daemon.features.network.command_network import OverlayNetwork
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError


def port_list(network: OverlayNetwork | None) -> m.PortListResult:
    """List the ports; none if commands share the network of the machine."""
    return m.PortListResult(ports=network.ports() if network else ())


def port_open(network: OverlayNetwork | None, params: m.PortOpenParams) -> m.PortOpenResult:
    if network is None or params.port not in {each.port for each in network.ports()}:
        what = f"no command listens on port {params.port} in a sandbox; port/list has the ports"
        raise InvalidParamsError.at("port", what, "unknown")
    try:
        return m.PortOpenResult(address=network.forward(params.port))
    except OSError as exc:
        raise InvalidStateError(f"port {params.port} cannot be opened: {exc.strerror}") from exc
