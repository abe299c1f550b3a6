"""The direct way to a model: a dialect's request over HTTP, and its chunks as they come."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException

from oh_daemon.contract.errors import ModelError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Json
from oh_daemon.model.anthropic import ANTHROPIC
from oh_daemon.model.chat import CHAT
from oh_daemon.model.dialect import Call, Dialect
from oh_daemon.model.events import read_events
from oh_daemon.model.failures import Failure, explain
from oh_daemon.model.http import Response, request
from oh_daemon.model.patience import Patience
from oh_daemon.model.providers import Provider
from oh_daemon.model.responses import RESPONSES
from oh_daemon.model.sockets import Waiter, said_of
from oh_daemon.model.written import Written, written_body

_DIALECTS: Mapping[str, Dialect] = {
    "anthropic": ANTHROPIC,
    "chat": CHAT,
    "responses": RESPONSES,
}
_MAX_REFUSAL_BYTES = 1 << 20


def direct_chunks(
    call: Call,
    provider: Provider,
    *,
    finds_key: bool,
    cancel: CancelToken,
    patience: Patience,
    written: Written,
) -> Generator[Json]:
    """Yield the answer's chunks in OpenAI's form. Raises `ModelError`, or `Cancelled` at once.

    With `finds_key`, the provider's variable may hold the key when the settings have none.
    """
    settings, dialect = call.settings, _dialect_of(call, provider)
    address = provider.address_for(settings, os.environ)
    url = address if address.endswith(dialect.path) else address + dialect.path
    headers = _headers(call, provider, dialect, finds_key=finds_key)
    body = written_body(dialect, call, written)
    try:
        with (
            Waiter(cancel, patience.left_s) as waiter,
            closing(request("POST", url, headers, body, waiter)) as response,
        ):
            _require_success(response, call)
            kind = response.headers.get("content-type", "")
            yield from dialect.chunks(read_events(kind, response.pieces(), settings))
    except (OSError, HTTPException) as exc:
        # Not `from exc`: a cause is shown in logs, with what it holds.
        raise explain(Failure(said_of(exc)), settings) from None


def _dialect_of(call: Call, provider: Provider) -> Dialect:
    if provider.dialect != "chat":
        return _DIALECTS[provider.dialect]
    if call.can.api == "responses" and not provider.has_responses:
        message = f"no Responses API is known for {call.settings.model}"
        raise ModelError(message, hint="set `llm.api` to `chat`, or leave it out")
    return _DIALECTS[call.can.api]


def _headers(
    call: Call, provider: Provider, dialect: Dialect, *, finds_key: bool
) -> dict[str, str]:
    settings = call.settings
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if key is None and finds_key:
        key = _first_of(provider.keys_in)
    fields = {"content-type": "application/json", **dialect.headers(key)}
    if key is None and finds_key and (token := _first_of(provider.tokens_in)):
        fields["authorization"] = f"Bearer {token}"
    fields |= {name.lower(): value for name, value in settings.extra_headers.items()}
    for name, value in fields.items():
        if not _is_sendable(name) or not _is_sendable(value):
            raise ModelError(
                f"the header {name!r} for {settings.model} has characters that HTTP cannot send",
                hint="check the key and `llm.extraHeaders` for line breaks and special characters",
            )
    return fields


def _first_of(variables: Iterable[str]) -> str | None:
    return next(filter(None, map(os.environ.get, variables)), None)


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _require_success(response: Response, call: Call) -> None:
    if response.status < HTTPStatus.MULTIPLE_CHOICES:
        return
    body = b""
    for piece in response.pieces():
        body += piece
        if len(body) > _MAX_REFUSAL_BYTES:
            break
    text = body.decode("utf-8", "replace").strip() or response.reason
    raise explain(Failure(text, response.status, response.headers), call.settings)
