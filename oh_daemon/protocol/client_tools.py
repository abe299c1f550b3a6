"""Tools that a client provides: how it describes them, and how they are called."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from oh_daemon.protocol.base import Contract

MAX_TOOLS = 128


class ClientTool(Contract):
    """One tool, in MCP's form."""

    name: Annotated[str, Field(max_length=64, pattern=r"^_?[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*_?$")]
    """Letters, digits, `-` and single `_`; `__` is reserved for the tools of MCP servers."""
    description: Annotated[str, Field(max_length=4_000)] = ""
    """What it does, for the model."""
    input_schema: dict[str, Any] = Field(default_factory=dict)
    """JSON Schema of an object."""
    annotations: dict[str, Any] = Field(default_factory=dict)
    """As in MCP. `readOnlyHint: true` marks a tool that changes nothing; it runs without asking."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 600
    """Timeout in seconds for one call."""


ClientTools = Annotated[tuple[ClientTool, ...], Field(max_length=MAX_TOOLS)]


class ToolCallParams(Contract):
    """Run a tool that this client provided in `clientTools`."""

    conversation_id: str
    item_id: str
    name: str
    """Name of the tool."""
    arguments: dict[str, Any]
    """Already checked against the tool's `inputSchema`."""


class ToolCallResult(Contract):
    """A tool result in MCP's form."""

    content: tuple[dict[str, Any], ...] = ()
    """MCP content blocks, for the model."""
    structured_content: Any = None
    """Given to the model when there is no `content`."""
    is_error: bool = False
    """Whether the call failed."""
