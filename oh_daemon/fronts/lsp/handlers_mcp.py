"""The methods about MCP servers: list them, switch one on or off, restart one, sign in to one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oh_daemon.contract import mcp as m
from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_worker
from oh_daemon.fronts.wire.client import Client
from oh_daemon.fronts.wire.framing import encode
from oh_daemon.fronts.wire.outbox import Outbox
from oh_daemon.mcp_servers.servers import McpServers

Folders = Sequence[Path]


@on_worker
def mcp_list(daemon: Daemon, _params: m.McpListParams, _folders: Folders) -> m.McpServers:
    daemon.shared.mcp.begin()
    return _servers(daemon.shared.mcp)


@on_worker
def set_enabled(daemon: Daemon, params: m.McpSetEnabledParams, _folders: Folders) -> m.McpServers:
    daemon.shared.mcp.set_enabled(params.server, enabled=params.enabled)
    return _servers(daemon.shared.mcp)


@on_worker
def restart(daemon: Daemon, params: m.McpRestartParams, _folders: Folders) -> m.McpServers:
    daemon.shared.mcp.restart(params.server)
    return _servers(daemon.shared.mcp)


@on_worker
def authenticate(
    daemon: Daemon, params: m.McpAuthenticateParams, _folders: Folders
) -> m.McpAuthenticateResult:
    mcp = daemon.shared.mcp
    url = mcp.authenticate(params.server)
    opened = bool(url and mcp.open_page(url))
    return m.McpAuthenticateResult(url=url, opened=opened, servers=mcp.infos())


def _servers(mcp: McpServers) -> m.McpServers:
    return m.McpServers(servers=mcp.infos())


def connect(mcp: McpServers, outbox: Outbox, client: Client, facts: ClientFacts) -> None:
    """Let the client open pages, and tell it when a server starts, fails or changes its tools."""

    def open_page(url: str) -> bool:
        can_show = facts.offers("window", "showDocument", "support")
        if can_show:
            page = {"uri": url, "external": True}
            client.request_async("window/showDocument", page)
        return can_show

    mcp.open_page = open_page
    mcp.on_change = lambda: outbox.notify("mcp/statusChanged", encode(_servers(mcp)))


HANDLERS: dict[str, Handler] = {
    "mcp/list": mcp_list,
    "mcp/setEnabled": set_enabled,
    "mcp/restart": restart,
    "mcp/authenticate": authenticate,
}
