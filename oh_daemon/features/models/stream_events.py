"""Reads the events in the body of a streamed answer (HTML standard, "Server-sent events").

A body of another kind, or an event that is broken or reports an error, raises an error of the
contract: some text is lost then, so the whole answer is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import orjson

from oh_daemon.common.decoded import as_object, objects_in
from oh_daemon.features.models.failures import CallFailure, explain, not_a_stream, unreachable
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.llm import LLMSettings

_ERROR_STATUSES = range(400, 600)
_STATUS_OF_CODE = {
    "authentication_error": HTTPStatus.UNAUTHORIZED,
    "billing_error": HTTPStatus.PAYMENT_REQUIRED,
    "context_length_exceeded": HTTPStatus.BAD_REQUEST,
    "insufficient_quota": HTTPStatus.TOO_MANY_REQUESTS,
    "invalid_prompt": HTTPStatus.BAD_REQUEST,
    "invalid_request_error": HTTPStatus.BAD_REQUEST,
    "model_not_found": HTTPStatus.NOT_FOUND,
    "not_found_error": HTTPStatus.NOT_FOUND,
    "permission_error": HTTPStatus.FORBIDDEN,
    "rate_limit_error": HTTPStatus.TOO_MANY_REQUESTS,
    "rate_limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "request_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}
"""Errors inside a stream have no status; codes not listed here count as the server's fault."""

_WHOLE = re.compile(rb'^(data|event):|"choices"\s*:|^\s*\{\s*"error"\s*:')
"""What tells a completion, or an error, from any other page."""


def read_events(
    content_type: str, pieces: Iterator[bytes], settings: LLMSettings
) -> Iterator[Json]:
    """Yield the events of a body that comes in `pieces`: JSON objects of any form."""
    if "html" in content_type or "json" in content_type:
        body = b"".join(pieces)
        # Some servers answer with the whole completion, or call a stream of events JSON.
        pieces = iter([b"data: " + b" ".join(body.split(b"\n")) if body[:1] == b"{" else body])
        if "html" in content_type or not _WHOLE.search(body):
            raise not_a_stream(content_type, body.decode("utf-8", "replace"), settings)
    is_error = False
    for line in _lines(pieces):
        if line.startswith("event:"):
            is_error = line.removeprefix("event:").strip() == "error"
        event = _parse_event(line)
        if event is None:
            continue
        if error := _error_in(event) or (is_error and event):
            raise explain(_failure_in(error), settings)
        yield event


class LineSplitter:
    """Splits at line feeds only, since JSON may hold U+2028 and similar characters."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that end in this piece."""
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            self._parts.append(tail)
            return []
        lines = b"".join([*self._parts, head]).split(b"\n")
        self._parts = [tail]
        return [line.decode("utf-8", "replace").rstrip("\r") for line in lines]

    def take_rest(self) -> list[str]:
        """Return the last line if it has no end."""
        return self.feed(b"\n") if any(self._parts) else []


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    splitter = LineSplitter()
    for piece in pieces:
        yield from splitter.feed(piece)
    yield from splitter.take_rest()


def _parse_event(line: str) -> Json | None:
    field, _, value = line.partition(":")
    value = value.strip(" ")
    if field != "data":
        return None
    if value == "[DONE]":
        return {"done": True}
    try:
        event = _loads(value)
    except ValueError:
        raise broken_event() from None
    # Something else than an object holds no part of an answer.
    return event if isinstance(event, dict) else None  # pyright: ignore[reportUnknownVariableType] - decoded JSON.


def _loads(text: str) -> object:
    try:
        return orjson.loads(text)
    except ValueError:
        # It knows no half characters, which come in pieces of a text, and no NaN.
        return json.loads(text)


def _error_in(event: Json) -> Any:
    """Return what is said of an error, which may stand anywhere around the text of an answer."""
    if event.get("type") == "error" or event.get("object") == "error":
        return event.get("error") or event
    match event:
        case {"error": error} if error:
            return error
        case {"response": {"error": error}} if error:
            return error
        case _:
            choices = objects_in(event.get("choices"))
            parts = [as_object(part) for each in choices for part in (each, *each.values())]
            return next(filter(None, (part.get("error") for part in parts)), None)


def broken_event() -> Exception:
    return unreachable("the model's stream holds a broken event")


def _failure_in(error: Any) -> CallFailure:
    """Read an error that a server reports inside a stream, after its status 200."""
    if not isinstance(error, dict):
        return CallFailure(str(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    fields: Json = error  # pyright: ignore[reportUnknownVariableType] - decoded JSON.
    code = fields.get("code") or fields.get("type")
    status = _STATUS_OF_CODE.get(str(code), HTTPStatus.INTERNAL_SERVER_ERROR)
    text = str(fields.get("message") or fields)
    return CallFailure(text, code if code in _ERROR_STATUSES else status)
