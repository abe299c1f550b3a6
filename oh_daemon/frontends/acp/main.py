"""`oh-daemon acp`: takes descriptors 0 and 1, and imports the rest after `initialize`."""

from __future__ import annotations

from oh_daemon.common.collector import paused_collector
from oh_daemon.frontends.acp.client_facts import AcpClientFacts
from oh_daemon.frontends.acp.server import AcpServer
from oh_daemon.jsonrpc.main_loop import Service
from oh_daemon.jsonrpc.stdio import claim_stdio, end_on_request


def serve() -> int:
    """Serve one client on descriptors 0 and 1; return the exit code."""
    stdio = claim_stdio()
    end_on_request()

    def compose(server: AcpServer, facts: AcpClientFacts) -> Service:
        with paused_collector():
            from oh_daemon.frontends.acp.composition import compose as composed  # noqa: PLC0415 - 0.7 s.

            return composed(server, facts)

    return AcpServer(stdio, compose).run()
