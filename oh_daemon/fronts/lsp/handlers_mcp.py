"""The methods about MCP servers: how they stand, switch one, start one anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oh_daemon.contract import mcp as m
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_worker
from oh_daemon.fronts.lsp.outbox import Outbox
from oh_daemon.fronts.lsp.stdio import encode
from oh_daemon.fronts.wiring import Shared

Folders = Sequence[Path]


@on_worker
def mcp_list(daemon: Daemon, _params: m.McpListParams, _folders: Folders) -> m.McpServers:
    daemon.shared.mcp.begin()
    return _servers(daemon.shared)


@on_worker
def set_enabled(daemon: Daemon, params: m.McpSetEnabledParams, _folders: Folders) -> m.McpServers:
    daemon.shared.mcp.set_enabled(params.server, enabled=params.enabled)
    return _servers(daemon.shared)


@on_worker
def restart(daemon: Daemon, params: m.McpRestartParams, _folders: Folders) -> m.McpServers:
    daemon.shared.mcp.restart(params.server)
    return _servers(daemon.shared)


def _servers(shared: Shared) -> m.McpServers:
    return m.McpServers(servers=shared.mcp.infos())


def tell_changes(shared: Shared, outbox: Outbox) -> None:
    """From now on the client hears whenever a server starts, fails or has other tools."""
    shared.mcp.on_change = lambda: outbox.notify("mcp/statusChanged", encode(_servers(shared)))


HANDLERS: dict[str, Handler] = {
    "mcp/list": mcp_list,
    "mcp/setEnabled": set_enabled,
    "mcp/restart": restart,
}
