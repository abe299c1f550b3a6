"""Reads the events in the body of a streamed answer, whatever library received it.

A body of another kind, or an event that is broken or reports an error, raises an error of the
contract: some text is lost then, so the whole answer is dropped.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus
from typing import Any

from pydantic import TypeAdapter

from oh_daemon.contract.llm import LLMSettings
from oh_daemon.core.ports import Json
from oh_daemon.model.failures import Failure, explain, not_a_stream, unreachable

_ERROR_STATUSES = range(400, 600)
_STATUS_OF_CODE = {
    "context_length_exceeded": HTTPStatus.BAD_REQUEST,
    "insufficient_quota": HTTPStatus.TOO_MANY_REQUESTS,
    "invalid_prompt": HTTPStatus.BAD_REQUEST,
    "invalid_request_error": HTTPStatus.BAD_REQUEST,
    "model_not_found": HTTPStatus.NOT_FOUND,
    "rate_limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
}
"""Errors inside a stream have no status; codes not listed here count as the server's fault."""


async def read_events(
    response: Any, settings: LLMSettings, form: TypeAdapter[Any]
) -> AsyncGenerator[Json]:
    """Yield the events of an httpx response from an endpoint that speaks OpenAI's dialect.

    litellm's own iterators take 0.3 ms per chunk, lose chunks that hold "[DONE]" or U+2028, and
    make up the usage and the finish reason that a broken stream lacks.
    """
    kind = response.headers.get("content-type", "")
    if "html" in kind or "json" in kind:
        body = (await response.aread()).decode("utf-8", "replace")
        raise not_a_stream(kind, body, settings)
    async for line in split_lines(response):
        event = _parse_event(line, form)
        if event is None:
            continue
        if error := _error_in(event):
            raise explain(_failure_in(error), settings)
        yield event


async def split_lines(response: Any) -> AsyncIterator[str]:
    """Yield lines split at line feeds only; httpx also splits at U+2028 and similar characters."""
    parts: list[bytes] = []
    async for data in response.aiter_bytes():
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            parts.append(tail)
            continue
        lines = b"".join([*parts, head]).split(b"\n")
        parts = [tail]
        for line in lines:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if any(parts):
        yield b"".join(parts).decode("utf-8", "replace")


def _parse_event(line: str, form: TypeAdapter[Any]) -> Json | None:
    field, _, value = line.partition(":")
    value = value.strip(" ")
    if field != "data" or value == "[DONE]":
        return None
    try:
        event: Json = json.loads(value)
        form.validate_python(event)
    except ValueError:
        raise broken_event() from None
    return event


def _error_in(event: Json) -> Any:
    if event.get("type") == "error":
        return event.get("error") or event
    response: Json = event.get("response") or {}
    return event.get("error") or response.get("error")


def broken_event() -> Exception:
    return unreachable("the model's stream holds a broken event")


def _failure_in(error: Any) -> Failure:
    """Read an error that a server reports inside a stream, after its status 200."""
    if not isinstance(error, dict):
        return Failure(str(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    fields: Json = error  # pyright: ignore[reportUnknownVariableType] - decoded JSON.
    code = fields.get("code") or fields.get("type")
    status = _STATUS_OF_CODE.get(str(code), HTTPStatus.INTERNAL_SERVER_ERROR)
    text = str(fields.get("message") or fields)
    return Failure(text, code if code in _ERROR_STATUSES else status)
