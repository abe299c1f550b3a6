"""Serves tools of ours as an MCP server over any pair of pipes; the caller provides the tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Protocol

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.mcp.connections import (
    open_reader,
    open_writer,
    read_messages,
    write_messages,
)
from oh_daemon.kernel.ports import Json, ToolResult, ToolSpec


class ToolSource(Protocol):
    """The tools to serve."""

    @property
    def specs(self) -> Sequence[ToolSpec]: ...

    def call(self, name: str, args: Json, cancel: CancelToken) -> ToolResult:
        """Run a tool, on any thread. A mistake of the client is a result and raises nothing."""
        ...


async def serve_descriptors(inbound: int, outbound: int, tools: ToolSource) -> None:
    """Serve a client over two descriptors, and close them at the end."""
    reader, pipe = await open_reader(inbound)
    try:
        await serve(reader, await open_writer(outbound), tools)
    finally:
        pipe.close()


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tools: ToolSource
) -> None:
    """Serve one client until it disconnects."""
    import anyio  # noqa: PLC0415 - comes with mcp, which is slow to import.

    to_server, from_client = anyio.create_memory_object_stream[Any](0)
    to_client, from_server = anyio.create_memory_object_stream[Any](0)
    reading = asyncio.create_task(read_messages(reader, to_server, to_client))
    writing = asyncio.create_task(write_messages(writer, from_server))
    server = _server(tools)
    try:
        await server.run(from_client, to_client, server.create_initialization_options())
    finally:
        reading.cancel()
        await to_client.aclose()
        with suppress(ConnectionError):
            await writing
        writer.close()


def _server(tools: ToolSource) -> Any:
    import mcp_types as types  # noqa: PLC0415 - see `serve`.
    from mcp.server.lowlevel import Server  # noqa: PLC0415

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        mcp_tools = [_describe_tool(spec) for spec in tools.specs]
        return types.ListToolsResult.model_validate({"tools": mcp_tools})

    async def call_tool(
        _context: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        cancel = CancelToken()
        try:
            result = await asyncio.to_thread(
                tools.call, params.name, params.arguments or {}, cancel
            )
        finally:
            cancel.cancel()
        answer = {"content": result.content, "isError": result.is_error}
        return types.CallToolResult.model_validate(answer)

    return Server(
        "oh-daemon",
        version=version("oh-daemon"),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _describe_tool(spec: ToolSpec) -> Json:
    """Describe a tool; clients ask their users about those marked as destructive."""
    hints = {"readOnlyHint": spec.read_only, "destructiveHint": not spec.read_only}
    return {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "annotations": {**hints, "openWorldHint": False},
    }
