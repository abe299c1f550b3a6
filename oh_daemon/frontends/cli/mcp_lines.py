"""Lines that the command line prints about MCP servers: state, tools and omissions."""

from __future__ import annotations

from collections.abc import Iterator

from oh_daemon.common.plain_text import join_names
from oh_daemon.protocol.mcp import McpServerInfo

_MAX_NAMES = 20


def state_line(server: McpServerInfo) -> str:
    """Return a line such as `MCP server 'shop': running, 2 tools: order, price`."""
    names = [name.removeprefix(f"{server.name}__") for name in server.tools]
    listing = f": {join_names(names, _MAX_NAMES)}" if names else ""
    n_tools = f"{len(names)} tool{'' if len(names) == 1 else 's'}"
    tools = f", {n_tools}{listing}" if server.status == "running" else ""
    error = f": {server.error}" if server.error else ""
    return f"MCP server {server.name!r}: {server.status}{tools}{error}"


def omission_lines(server: McpServerInfo) -> Iterator[str]:
    """Yield a line for each tool that is left out, with the reason."""
    for omission in server.omitted:
        yield f"MCP server {server.name!r} leaves out {omission}"
