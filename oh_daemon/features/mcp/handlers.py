"""Handlers of `mcp/*`: the user's MCP servers as a person sees and controls them."""

from __future__ import annotations

from oh_daemon.features.mcp.servers import ServerPool
from oh_daemon.protocol import mcp as m


def mcp_list(servers: ServerPool) -> m.McpServers:
    """List the servers, and start those that have not been started yet."""
    servers.begin()
    return m.McpServers(servers=servers.infos())


def mcp_set_enabled(servers: ServerPool, params: m.McpSetEnabledParams) -> m.McpServers:
    servers.set_enabled(params.server, is_enabled=params.enabled)
    return m.McpServers(servers=servers.infos())


def mcp_restart(servers: ServerPool, params: m.McpRestartParams) -> m.McpServers:
    servers.restart(params.server)
    return m.McpServers(servers=servers.infos())


def mcp_authenticate(
    servers: ServerPool, params: m.McpAuthenticateParams
) -> m.McpAuthenticateResult:
    url = servers.authenticate(params.server)
    is_open = bool(url and servers.open_page(url))
    return m.McpAuthenticateResult(url=url, opened=is_open, servers=servers.infos())
