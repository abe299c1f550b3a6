"""A Python function as a tool: what `oh_daemon.Tool` becomes inside a conversation.

The callback may return text, a dict in MCP's result shape, a `ToolResult`, or any JSON value; what
it raises becomes an observation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from oh_daemon.contract.items import ToolSubject
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec

MAX_RESULT_CHARS = 32 << 10


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """`call` gets the arguments as keywords. It runs on the conversation's thread."""

    spec: ToolSpec
    call: Callable[..., object]

    def plan(self, args: Json) -> Intent:
        """Trusted code of the program that made it: low risk, and it may touch anything."""
        return Intent(
            self.spec.name,
            ToolSubject(tool=self.spec.name, args=args),
            "low",
            footprint=Footprint(writes=not self.spec.read_only),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        return to_result(self.call(**args))


def to_result(value: object) -> ToolResult:
    """Bring whatever a callback returned into MCP's shape, capped, and such that it is JSON."""
    if isinstance(value, ToolResult):
        return replace(value, content=_blocks(value.content), meta=_plain(value.meta))
    if isinstance(value, dict) and "content" in value:
        result = cast("Json", value)
        meta = result.get("_meta", result.get("meta", {}))
        return ToolResult(_blocks(result["content"]), bool(result.get("isError")), _plain(meta))
    return ToolResult.of(_capped(_rendered(cast("object", value))))


def _blocks(content: object) -> tuple[Json, ...]:
    """MCP's content blocks; what is none becomes a text, so that log and model can take it."""
    blocks = cast("list[object]", content if isinstance(content, list | tuple) else [content])
    return tuple(_block(block) for block in blocks)


def _block(block: object) -> Json:
    plain = _plain(block)
    kind, text = plain.get("type"), plain.get("text")
    if isinstance(kind, str) and kind != "text":
        return plain
    known = text if kind == "text" and isinstance(text, str) else _rendered(block)
    return {**plain, "type": "text", "text": _capped(known)}


def _plain(value: object) -> Json:
    """The object as JSON has it; empty when it is none."""
    try:
        return json.loads(json.dumps(dict(cast("Json", value))))
    except (TypeError, ValueError):
        return {}


def _rendered(value: object) -> str:
    if value is None:
        return "Done."
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def _capped(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[{len(text) - MAX_RESULT_CHARS} characters cut]\n{text[-half:]}"
