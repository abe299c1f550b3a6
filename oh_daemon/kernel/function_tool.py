"""A Python function as a tool: what `oh_daemon.Tool` becomes inside a conversation.

The callback may return text, a dict in the shape of an MCP result, a `ToolResult`, or any JSON
value; an exception becomes an observation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct

from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.protocol.approvals import ToolSubject


class FunctionTool(Struct, frozen=True):
    """`call` gets the arguments as keyword arguments, on the thread that runs the action.

    A single action runs on the conversation's thread, actions that run in parallel on their own.
    """

    spec: ToolSpec
    call: Callable[..., object]

    def plan(self, args: Json) -> Intent:
        """Rate the call as low risk if the tool only reads, else as medium, as for MCP tools."""
        return Intent(
            self.spec.name,
            ToolSubject(tool=self.spec.name, args=args),
            "low" if self.spec.read_only else "medium",
            footprint=Footprint(writes=not self.spec.read_only),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        return to_result(self.call(**args))


def to_result(value: object) -> ToolResult:
    """Convert what a callback returned into MCP's shape; `kernel/tool_calls` makes it JSON."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, dict) and "content" in value:
        result = cast("Json", value)
        content: Any = result["content"]
        parts = cast("list[Json]", content if isinstance(content, list | tuple) else [content])
        meta = result.get("_meta", result.get("meta", {}))
        return ToolResult(tuple(parts), bool(result.get("isError")), meta)
    return ToolResult.of(value if isinstance(value, str) else _render(value))


def _render(value: Any) -> str:
    if value is None:
        return "Done."
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)
