"""The way to a model through litellm, for the providers that have no row in `providers`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from oh_daemon.contract.errors import ModelError
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Json
from oh_daemon.model.chat import CHAT, chat_fields
from oh_daemon.model.dialect import Call, Dialect, without_none
from oh_daemon.model.events import read_events
from oh_daemon.model.failures import Failure, explain
from oh_daemon.model.litellm_process import ask_litellm
from oh_daemon.model.patience import Patience
from oh_daemon.model.responses import RESPONSES, responses_fields


def litellm_chunks(
    call: Call, *, finds_key: bool, cancel: CancelToken, patience: Patience
) -> Generator[Json]:
    """Yield the answer's chunks in OpenAI's form. Raises `ModelError`, or `Cancelled` at once.

    With `finds_key`, litellm looks for a key in the environment when the settings have none.
    """
    is_chat = call.can.api == "chat"
    fields = chat_fields(call) if is_chat else responses_fields(call)
    if not is_chat:
        # litellm's own parameter `stream` only fakes streaming for models not in its table.
        fields["extra_body"] = {"stream": fields.pop("stream")}
    request = {
        "ask": call.can.api,
        "fields": _with_options(fields, call.settings),
        "cache_key": call.request.cache_key,
        "finds_key": finds_key,
    }
    with closing(ask_litellm(request, cancel, patience)) as answer:
        messages = _explained(answer, call.settings)
        yield from _chunks(messages, CHAT if is_chat else RESPONSES, call.settings)


def _chunks(messages: Iterator[Json], dialect: Dialect, settings: LLMSettings) -> Iterator[Json]:
    for message in messages:
        if "provider" in message:
            said = f"no Responses API is known for {settings.model}"
            raise ModelError(said, hint="set `llm.api` to `chat`, or leave it out")
        if "type" in message:
            pieces = (each["data"].encode("latin-1") for each in messages)
            yield from dialect.chunks(read_events(message["type"], pieces, settings))
            return
        yield message["chunk"]


def _explained(messages: Iterator[Json], settings: LLMSettings) -> Iterator[Json]:
    for message in messages:
        if "failure" in message:
            raise explain(Failure(**message["failure"]), settings)
        if "bug" in message:
            said = f"litellm could not make this call to {settings.model!r}: {message['bug']}"
            raise ModelError(said, hint="the log of the daemon says where it broke")
        yield message


def _with_options(fields: Json, settings: LLMSettings) -> Json:
    """Add what litellm takes beside the request."""
    key = settings.api_key
    given: Json = {
        **fields,
        "model": settings.model,
        "custom_llm_provider": settings.custom_llm_provider,
        "api_version": settings.api_version,
        "api_base": settings.base_url,
        "api_key": key.get_secret_value() if key else None,
        "extra_headers": settings.extra_headers or None,
        "extra_body": {**settings.extra_body, **fields.get("extra_body", {})} or None,
        "timeout": settings.timeout_s,
    }
    return without_none(given) | {
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
        # Otherwise litellm imports the mcp package, and needs it, for every request with tools.
        "_skip_mcp_handler": True,
    }


def litellm_provider_of(settings: LLMSettings) -> str:
    """Return litellm's name for whoever serves the model. Raises `ModelError` if nobody does."""
    request = {"ask": "provider", "fields": _with_options({}, settings)}
    with closing(ask_litellm(request, CancelToken())) as answer:
        message = next(_explained(answer, settings))
    return str(message["provider"])
