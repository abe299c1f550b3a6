"""What a tool gave or raised, as the log, the wire and the model can take it.

Tools of users return anything. What enters the log is read again for every later request, so a part
of the wrong form or of many megabytes would end each turn from then on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from oh_daemon.core.plain_text import shorten, well_formed
from oh_daemon.core.ports import Json, ToolResult
from oh_daemon.core.prompt import ContextFile, render_context_file

MAX_TEXT_CHARS = 64 << 10
_MAX_PART_CHARS = 16 << 20


def presentable(result: ToolResult) -> ToolResult:
    """The same result with content that is JSON of MCP's form, and not too long."""
    content: Iterable[object] = result.content
    meta: Any = json.loads(_rendered(result.meta))
    parts = tuple(_part(part) for part in content)
    return replace(result, content=parts, meta=meta if isinstance(meta, dict) else {})


def with_context(result: ToolResult, files: Sequence[ContextFile]) -> ToolResult:
    """The same result, and after it what the project says about the place that it is about."""
    if not files:
        return result
    told = [{"type": "text", "text": render_context_file(file)} for file in files]
    meta = {**result.meta, "contextFiles": [file.name for file in files]}
    return replace(result, content=(*result.content, *told), meta=meta)


def _rendered(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(repr(value))
    # File names and output of programs may hold half surrogate pairs, which are not JSON.
    return well_formed(text)


def _part(part: object) -> Json:
    rendered = _rendered(part)
    match json.loads(rendered):
        case {"type": "text", "text": str(text)} as found:
            return {**found, "text": shorten(text, MAX_TEXT_CHARS)}
        case str(text):
            return {"type": "text", "text": shorten(text, MAX_TEXT_CHARS)}
        case {"type": "resource", "resource": dict()} as found if _is_bearable(rendered):
            return found
        case {"type": "image" | "audio" | "resource_link"} as found if _is_bearable(rendered):
            return found
        case _:
            return {"type": "text", "text": shorten(rendered, MAX_TEXT_CHARS)}


def _is_bearable(rendered: str) -> bool:
    return len(rendered) <= _MAX_PART_CHARS
