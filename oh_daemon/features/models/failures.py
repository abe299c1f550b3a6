"""What a failed call means: turns the provider's status and message into an error of the contract.

Pure. Where a setting helps, the hint names it; no message holds a key.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from json import loads
from time import time
from urllib.parse import urlsplit

from msgspec import Struct

from oh_daemon.common.masking import Masker
from oh_daemon.common.plain_text import well_formed
from oh_daemon.protocol import errors as e
from oh_daemon.protocol.llm import LLMSettings

MAX_DETAIL = 600

_OVERFLOW = re.compile(
    r"context.?(length|window|limit|size)|maximum (context|prompt|input)|prompt is too long"
    r"|too many (input )?tokens|input is too long|exceeds? the (available )?context"
    r"|(input|prompt|request) (length|tokens?|token count) .{0,40}exceed|reduce the length"
    r"|request too large",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"cannot connect|connect(ion)? (error|reset|refused|closed|aborted|failed)|getaddrinfo"
    r"|name or service|not completed|disconnected|timed? ?out|ssl|certificate|peer closed",
    re.IGNORECASE,
)
_NO_QUOTA = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
_NO_PROVIDER = "LLM Provider NOT provided"
_PREFIX = re.compile(r"^(litellm\.)?(\w+(Error|Exception|Timeout)\b\s*)+[:-]\s*")
_BYTES = re.compile(r"""^b(['"])(?:[^\\]|\\.)*?\1""", re.ASCII)
_JSON_MESSAGE = re.compile(
    r"""^\W*(?:"error"\s*:\s*\{.*?)?"message"\s*:\s*("(?:[^"\\]|\\.)*")""", re.DOTALL
)
_OF_LIBRARIES = (
    # aiohttp and ssl name their own objects beside what went wrong.
    (re.compile(r"\s+ssl:(<[^>]*>|\w+)"), ""),
    (re.compile(r":? *[<\[](?:TransferEncodingError|Connect call failed).*"), ""),
    (re.compile(r"\[\w+: \(1, '\[SSL: \w+\] (.*?)(?: \(_ssl\.c:\d+\))?'\)\]"), r"(\1)"),
    (re.compile(r" \[([\w ]+)\]$"), r" (\1)"),
)
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_MARKUP = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"^Cannot connect to host (\S+):(\d+)")
_TRANSIENT = frozenset({408, 409, 425})


class CallFailure(Struct, frozen=True):
    """What is known about a failed call; without a status the provider sent no response."""

    text: str
    status: int | None = None
    headers: Mapping[str, str] | None = None


def explain(failure: CallFailure, settings: LLMSettings) -> e.ModelError:
    """Return the error to raise. Of 4xx, only 408, 409, 425 and 429 with quota are retryable."""
    status, text = failure.status, failure.text
    where = settings.base_url or "the provider"
    detail = _detail(text, settings)
    if _NO_PROVIDER in text:
        return e.ModelUnavailableError(
            f"the model name {settings.model!r} does not say which provider has it",
            hint="write the setting `model` as provider/name, or set `llm.customLlmProvider`",
        )
    is_overflow = status != HTTPStatus.TOO_MANY_REQUESTS and _OVERFLOW.search(text)
    if is_overflow or status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return e.ContextWindowExceededError(
            f"the conversation does not fit the context of {settings.model!r}: {detail}",
            http_status=status,
        )
    if status is None or (_is_transient(status) and _UNREACHABLE.search(text)):
        return _unreachable_at(where, detail)
    kind, message, hint = _meaning(status)
    is_worth_it = _is_transient(status) or (kind is e.RateLimitError and not _NO_QUOTA.search(text))
    return kind(
        message.format(where=where, model=settings.model, status=status, detail=detail),
        retryable=is_worth_it,
        retry_after_s=_retry_after_s(failure.headers or {}),
        http_status=status,
        hint=hint,
    )


_IN_TEMPLATE = re.compile(r"jinja|template|roles must alternate", re.IGNORECASE)
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})


def is_refusal(error: e.ModelError) -> bool:
    """Return whether the provider refused what a request holds, so that another may be taken.

    llama.cpp answers with status 500 when a model's template refuses the messages.
    """
    if isinstance(error, e.ContextWindowExceededError):
        return False
    return error.http_status in _REFUSED or bool(_IN_TEMPLATE.search(error.message))


def _meaning(status: int) -> tuple[type[e.ModelError], str, str | None]:
    """Return the kind of error, its message and a hint."""
    message = "{where} answered HTTP {status}: {detail}"
    match status:
        case 401 | 403:
            refusal = "{where} refuses the key for {model!r} (HTTP {status}): {detail}"
            hint = (
                "set the key in your editor, or the provider's variable, such as OPENAI_API_KEY, "
                "or run `oh-daemon login`"
            )
            return e.AuthRequiredError, refusal, hint
        case 404:
            unknown = "{where} does not serve {model!r}: {detail}"
            return e.ModelUnavailableError, unknown, "check the settings `model` and `llm.baseUrl`"
        case 429:
            return e.RateLimitError, message, None
        case 402:
            return e.ModelUnavailableError, message, "the account has no credit left"
        case _ if _is_transient(status):
            return e.NetworkError, message, None
        case _ if status < HTTPStatus.BAD_REQUEST:
            redirect = "redirects are not followed; set `llm.baseUrl` to the final address"
            return e.ModelUnavailableError, message, redirect
        case _:
            return e.ModelError, message, "check the settings `model` and `llm`"


def unreachable(message: str, hint: str | None = None) -> e.NetworkError:
    hint = hint or "check the network and the setting `llm.baseUrl`"
    return e.NetworkError(message, retryable=True, hint=hint)


def _unreachable_at(where: str, detail: str) -> e.NetworkError:
    match = _HOST.match(detail)
    if match is None:
        return unreachable(f"the connection to {where} broke: {detail}")
    message = f"{where} cannot be reached: {detail[0].lower()}{detail[1:]}"
    if "certificate" in detail:
        return unreachable(message, "name a file with its authority's certificate in SSL_CERT_FILE")
    address = urlsplit(where)
    port = address.port or {"http": 80, "https": 443}.get(address.scheme)
    if port is not None and match.groups() != (address.hostname, str(port)):
        proxy = "that is the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
        return unreachable(message, f"{proxy}; NO_PROXY={address.hostname} goes past it")
    return unreachable(message)


def not_a_stream(content_type: str, body: str, settings: LLMSettings) -> e.ModelError:
    """Return the error for a status 200 whose body is not an answer, for instance a login page."""
    where = settings.base_url or "the provider"
    return e.ModelUnavailableError(
        f"{where} answered with {content_type} instead of a stream: {_detail(body, settings)}",
        hint="check the setting `llm.baseUrl`: it usually ends in /v1",
    )


def no_responses(settings: LLMSettings) -> e.ModelError:
    message = f"no Responses API is known for {settings.model}"
    return e.ModelError(message, hint="set `llm.api` to `chat`, or leave it out")


def _is_transient(status: int) -> bool:
    return status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _detail(text: str, settings: LLMSettings) -> str:
    """Return the provider's own words, shortened, without names of libraries, markup or keys."""
    text = text.partition("Traceback (most recent call last)")[0]
    while match := _PREFIX.match(text):
        text = text[match.end() :]
    # Some libraries show a body as Python writes bytes.
    if bytes_match := _BYTES.search(text):
        with suppress(SyntaxError):
            text = literal_eval(bytes_match[0]).decode("utf-8", "replace")
    # In {"error": {"message": "...", ...}}, people want to read the message.
    if bytes_match := _JSON_MESSAGE.search(text):
        with suppress(ValueError):
            text = well_formed(loads(bytes_match[1], strict=False))
    if _PAGE.match(text):
        text = _MARKUP.sub(" ", text)
    for pattern, instead in _OF_LIBRARIES:
        text = pattern.sub(instead, text)
    text = " ".join(text.split())
    for secret in filter(None, (settings.key, *settings.extra_headers.values())):
        text = text.replace(secret, "<secret hidden>")
    return Masker().mask(text)[:MAX_DETAIL]


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Parse Retry-After: seconds or an HTTP date, as in RFC 9110 section 10.2.3."""
    value = next((v for k, v in headers.items() if k.lower() == "retry-after"), None)
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except ValueError:
        return None
