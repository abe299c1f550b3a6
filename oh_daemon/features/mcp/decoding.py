"""Decodes the answers of a server part by part, so that one odd part costs at most itself.

The mcp package validates each answer as a whole: one odd icon would cost a list of 40 tools. So the
package gets every result in an envelope, which is valid in each revision of the protocol:

    {"tools": [{"name": 5}]}  ->  {"tools": [], …, "_meta": {"received": {"tools": [{"name": 5}]}}}

`received` takes the result out again, and the functions below read it. Text is never left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any, Self, cast

from oh_daemon.common.decoded import as_object
from oh_daemon.kernel.ports import Json

_RECEIVED = "received"
_FRAME: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Fields that the revision 2026-07-28 requires; the package drops them for earlier ones."""
_EMPTY: Mapping[str, Json] = {
    "resources/list": {"resources": []},
    "resources/read": {"contents": []},
    "resources/templates/list": {"resourceTemplates": []},
    # The package checks a success against the tool's output schema, and raises if it does not fit.
    "tools/call": {"content": [], "isError": True},
    "tools/list": {"tools": []},
}
_FEATURES = ("tools", "resources", "prompts", "logging", "completions")
_STAND_INS = {"Not Found", "Session terminated", "Server returned an error response"}
"""Texts of the package in place of the body of an HTTP error."""
_MAX_REFUSAL = 500
"""How much of the body of an HTTP error is shown, in characters."""


class Answers:
    """The answers that one connection waits for, by the id of the request."""

    def __init__(self) -> None:
        self._methods: dict[object, str] = {}
        self._refusals: dict[object, str] = {}

    def refuse(self, request: bytes, status: int, body: str) -> None:
        """Note the HTTP error that answers this request, of which the package drops the body."""
        try:
            request_id = json.loads(request)["id"]
        except (KeyError, TypeError, ValueError):
            return
        self._refusals[request_id] = f"HTTP {status}: {' '.join(body.split())[:_MAX_REFUSAL]}"

    def on_sent(self, item: Any) -> None:
        """Note the method of a request."""
        request_id = getattr(item.message, "id", None)
        if request_id is not None and hasattr(item.message, "method"):
            self._methods[request_id] = item.message.method

    def on_received(self, item: Any) -> Any:
        """Put a result into its envelope, and the server's own words into an error."""
        message = getattr(item, "message", None)
        request_id = getattr(message, "id", None)
        if message is None or hasattr(message, "method"):
            return item
        method, refusal = self._methods.pop(request_id, ""), self._refusals.pop(request_id, None)
        if hasattr(message, "result"):
            message.result = _in_envelope(method, message.result)
        elif refusal is not None and message.error.message in _STAND_INS:
            message.error.message = refusal
        return item


class _Stream:
    """The end of a transport's stream, in the form that the mcp package expects."""

    def __init__(self, stream: Any, answers: Answers) -> None:
        self._stream = stream
        self._answers = answers

    @property
    def last_context(self) -> Any:
        """The context of the sender, with which the package runs handlers; None over pipes."""
        return getattr(self._stream, "last_context", None)

    async def send(self, item: Any) -> None:
        self._answers.on_sent(item)
        await self._stream.send(item)

    async def receive(self) -> Any:
        return self._answers.on_received(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return self._answers.on_received(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()


@asynccontextmanager
async def in_envelopes(
    transport: AbstractAsyncContextManager[Any], answers: Answers
) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield the streams of a transport, on which each result comes in its envelope."""
    async with transport as (reader, writer):
        yield _Stream(reader, answers), _Stream(writer, answers)


def _in_envelope(method: str, result: Json) -> Json:
    if method == "initialize":
        return _greeting(result)
    # Another type asks for something, such as the roots, before there is a result.
    if method not in _EMPTY or result.get("resultType") not in {None, "complete"}:
        return result
    envelope = {**_EMPTY[method], **_FRAME, "_meta": {_RECEIVED: result}}
    if method == "tools/list":
        envelope["tools"] = [*filter(None, map(_tool_with_headers, list_in(result, "tools") or ()))]
    return envelope


def _greeting(result: Json) -> Json:
    names = as_object(result.get("capabilities"))
    return {
        "protocolVersion": str(result.get("protocolVersion")),
        "capabilities": {name: {} for name in _FEATURES if name in names},
        "serverInfo": {"name": "server", "version": "0"},
    }


def _tool_with_headers(tool: object) -> Json | None:
    """Return a tool some of whose arguments the package must repeat as HTTP headers."""
    fields = as_object(tool)
    name, properties = (
        fields.get("name"),
        as_object(as_object(fields.get("inputSchema")).get("properties")),
    )
    if not isinstance(name, str) or "x-mcp-header" not in str(properties):
        return None
    schemas = {key: as_object(each) for key, each in properties.items()}
    return {"name": name, "inputSchema": {"type": "object", "properties": schemas}}


def received(result: Any) -> Json:
    """Return the result that a server sent, from the one that the package returns, if any."""
    answer: Json = result.meta[_RECEIVED] if result is not None else {}
    return answer


def list_in(result: Json, key: str) -> list[Any] | None:
    """Return the list in a result; None if there is none, or something else in its place."""
    value = result.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else None


def cursor_in(result: Json) -> str | None:
    """Return where the next page begins; None at the end."""
    cursor = result.get("nextCursor")
    return str(cursor) if cursor not in {None, ""} else None


def parts_of(result: Json) -> tuple[Json, ...]:
    """Return the content of a tool's result, or its structured content if there is no other."""
    blocks = tuple(filter(None, map(_block, _parts_in(result, "content"))))
    structured = result.get("structuredContent")
    return blocks or (() if structured is None else (_text(structured),))


def is_error(result: Json) -> bool:
    return result.get("isError") not in {None, False, "false"}


def resource_parts(result: Json) -> tuple[Json, ...]:
    """Return the contents of a resource; an image is one that the model can see."""
    parts = map(_as_part, _parts_in(result, "contents"))
    return tuple(filter(None, map(_block, parts)))


def _parts_in(result: Json, key: str) -> list[Any]:
    """Return the parts, also if there is one and no list."""
    parts = list_in(result, key)
    return [result.get(key)] if parts is None else parts


def _as_part(content: object) -> object:
    resource = as_object(content)
    if not resource:
        return content
    mime_type = str(resource.get("mimeType") or "")
    if "blob" in resource and mime_type.startswith("image/"):
        return {"type": "image", "mimeType": mime_type, "data": resource["blob"]}
    return {"type": "resource", "resource": resource}


_ESSENTIAL = {"type", "text", "data", "mimeType", "resource", "uri", "name"}


def _block(part: object) -> Json | None:
    """Return a part that is valid in MCP's form, if need be without what is odd, or as text."""
    fields = as_object(part)
    if not fields:
        return None if part is None else _text(part)
    if _is_valid(fields):
        return fields
    essential = {key: value for key, value in fields.items() if key in _ESSENTIAL}
    resource = as_object(fields.get("resource"))
    if resource:
        names = ("uri", "mimeType", "text", "blob")
        essential["resource"] = {key: resource[key] for key in names if key in resource}
    if _is_valid(essential):
        return essential
    text = next((each["text"] for each in (fields, resource) if "text" in each), fields)
    return None if text is None else _text(text)


def _is_valid(part: Json) -> bool:
    from pydantic import ValidationError  # noqa: PLC0415 - see `_adapter`.

    try:
        _adapter().validate_python(part, by_name=False)
    except ValidationError:
        return False
    return True


@cache
def _adapter() -> Any:
    from mcp_types import ContentBlock  # noqa: PLC0415 - comes with mcp, which takes a second.
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter[Any](ContentBlock)


def _text(value: object) -> Json:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"type": "text", "text": text}
