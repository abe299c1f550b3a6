"""Turns what a tool returned or raised into content that the log, the wire and the model accept.

Tools of users may return anything. What is logged goes into every later request, so a part of the
wrong form, or of many megabytes, would end each turn from then on.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from oh_daemon.core.plain_text import is_deep, shorten, well_formed
from oh_daemon.core.ports import Json, ToolResult
from oh_daemon.core.prompt import ContextFile, render_context_file
from oh_daemon.core.secrets import Masker

MAX_TEXT_CHARS = 64 << 10
_MAX_PART_CHARS = 16 << 20
_IMAGE_HEADS = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""How the base64 of an image begins, and its kind."""
_MAX_SEEN_CHARS = 5 << 20
"""The smallest limit of a provider on one image, Anthropic's."""
_MAX_INLINE_CHARS = 32 << 10
"""Longer base64 is stored as a blob, since each line of the log is read for every request."""


def presentable(result: ToolResult, masker: Masker) -> ToolResult:
    """Return the result with content that is JSON in MCP's form and not too long."""
    content: Iterable[object] = result.content
    meta = _loaded(_rendered(result.meta))

    def short(text: str) -> str:
        return shorten(text, MAX_TEXT_CHARS, masker.part)

    parts = tuple(_part(part, short) for part in content)
    return replace(result, content=parts, meta=meta if isinstance(meta, dict) else {})


def with_blobs(result: ToolResult, put_blob: Callable[[bytes], str]) -> ToolResult:
    """Return the result with its large images, sounds and files stored beside the log."""
    return replace(result, content=tuple(_kept(part, put_blob) for part in result.content))


def _kept(part: Json, put_blob: Callable[[bytes], str]) -> Json:
    match part:
        case {"type": "image" | "audio", "data": str(data)} if len(data) > _MAX_INLINE_CHARS:
            return {**_without(part, "data"), "outputRef": put_blob(b64decode(data))}
        case {"type": "resource", "resource": {"blob": str(data)} as resource} if (
            len(data) > _MAX_INLINE_CHARS
        ):
            kept = {**_without(resource, "blob"), "outputRef": put_blob(b64decode(data))}
            return {**part, "resource": kept}
        case _:
            return part


def _without(part: Json, key: str) -> Json:
    return {name: value for name, value in part.items() if name != key}


def with_context(result: ToolResult, files: Sequence[ContextFile]) -> ToolResult:
    """Return the result, followed by what the project says to agents about the places in it."""
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


def _loaded(rendered: str) -> Any:
    """Return what the log can hold: the data, or its text when it is nested too deeply."""
    data = json.loads(rendered)
    return rendered if is_deep(data) else data


def _part(part: object, short: Callable[[str], str]) -> Json:
    rendered = _rendered(part)
    match _loaded(rendered):
        case {"type": "text", "text": str(text)} as found:
            return {**found, "text": short(text)}
        case str(text):
            return {"type": "text", "text": short(text)}
        case {"type": "resource", "resource": {"text": str(text)} as resource} as found:
            return {**found, "resource": {**resource, "text": short(text)}}
        case {"type": "resource", "resource": {"blob": str(data)}} as found if _is_bearable(data):
            return found
        case {"type": "image" | "audio", "data": str(data)} as found if _is_bearable(data):
            return found if found["type"] == "audio" else _image(found, data)
        case {"type": "resource_link", "uri": str()} as found if len(rendered) <= MAX_TEXT_CHARS:
            return found
        case {"type": str(kind), "data": str()} | {"type": str(kind), "resource": {"blob": str()}}:
            return {"type": "text", "text": f"({kind}: broken, or larger than 12 MiB)"}
        case _:
            return {"type": "text", "text": short(rendered)}


def _image(part: Json, data: str) -> Json:
    """Correct the type by the data: with a wrong one, providers would refuse every request.

    An image that some provider would refuse is for the user only.
    """
    kind = next((kind for head, kind in _IMAGE_HEADS.items() if data.startswith(head)), None)
    if kind is None or len(data) > _MAX_SEEN_CHARS:
        return {**part, "annotations": {"audience": ["user"]}}
    return {**part, "mimeType": kind}


def _is_bearable(data: str) -> bool:
    """Return whether this is base64, of a size that a log can hold."""
    try:
        return len(data) <= _MAX_PART_CHARS and bool(b64decode(data, validate=True))
    except ValueError:
        return False
