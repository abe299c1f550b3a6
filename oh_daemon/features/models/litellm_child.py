"""The program of the child process in which litellm runs; `litellm_calls` is its only client.

Answers many requests at once: those to a model with the body of an OpenAI-shaped stream as it came,
or else with the chunks into which litellm translates the stream.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import cache, partial
from typing import Any

from oh_daemon.features.models.stream_events import LineSplitter
from oh_daemon.kernel.ports import Json

_PR_SET_PDEATHSIG = 1
_OWN_CLIENT = frozenset({"openai", "anthropic", "gemini"})
"""Providers for which litellm accepts our own HTTP client, which follows no redirects."""
_KNOW_THEIR_CALLERS = frozenset(
    {"bedrock", "sagemaker", "sagemaker_chat", "sagemaker_nova", "vertex_ai", "vertex_ai_beta"}
)
"""Platforms that use the identity of the machine or its user; a key would replace that."""
_NO_KEY = "none"


def main(parent: int) -> None:
    _end_with(parent)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What libraries print must not get between the messages.

    def send(message: Json) -> None:
        out.write(json.dumps(message, default=str).encode() + b"\n")
        out.flush()

    loop = asyncio.new_event_loop()
    accept = partial(loop.call_soon_threadsafe, Serving(loop, send).take)
    # It reads during the import, too, and so sees that the daemon has ended.
    threading.Thread(target=_read_all, args=(accept,), name="requests", daemon=True).start()
    load_litellm()
    loop.run_forever()


def _end_with(parent: int) -> None:
    """Have the kernel end this process when the daemon ends, even if it is stopped then."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _read_all(accept: Callable[[Json], object]) -> None:
    for line in sys.stdin.buffer:
        accept(json.loads(line))
    os._exit(0)


class Serving:
    """The requests that are being answered. Only for the thread of `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[Json], None]) -> None:
        self._loop = loop
        self._send = report
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, message: Json) -> None:
        """Begin to answer a request, or end one that is cancelled."""
        number: int = message["id"]
        if "cancel" not in message:
            task = self._tasks[number] = self._loop.create_task(self._serve(number, message))
            task.add_done_callback(lambda _: self._tasks.pop(number))
        elif task := self._tasks.get(number):
            task.cancel()

    async def _serve(self, number: int, request: Json) -> None:
        self._send({"id": number, "begun": True})
        try:
            async with aclosing(answer(request)) as messages:
                async for message in messages:
                    self._send({"id": number, **message})
            end: Json = {"end": True}
        except _failure_types() as exc:
            end = {"failure": _failure_of(exc)}
        except Exception as exc:  # noqa: BLE001 - a bug of litellm ends one call.
            traceback.print_exc()
            end = {"bug": f"{type(exc).__name__}: {exc}"}
        self._send({"id": number, **end})


async def answer(request: Json) -> AsyncGenerator[Json]:
    """Yield the messages of an answer. Raises what litellm and the libraries below it raise."""
    litellm, ask, fields = load_litellm(), request["ask"], request["fields"]
    provider = _provider_of(fields)
    if ask == "provider" or (ask == "responses" and not _has_responses(provider, fields)):
        yield {"provider": provider}
        return
    begin = litellm.acompletion if ask == "chat" else litellm.aresponses
    stream: Any = await begin(**fields, **_own(provider, request))
    async with aclosing(stream if ask == "chat" else stream.response):
        response = _openai_body(stream.completion_stream) if ask == "chat" else stream.response
        async for message in _chunks(stream) if response is None else _pieces(response):
            yield message


def _has_responses(provider: str, fields: Json) -> bool:
    """Return whether litellm would not ask for a chat completion instead, without streaming."""
    manager = load_litellm().utils.ProviderConfigManager
    config = manager.get_provider_responses_api_config
    return config(provider=provider, model=fields["model"]) is not None


def _provider_of(fields: Json) -> str:
    """Return litellm's name for whoever serves the model."""
    provider = load_litellm().get_llm_provider(
        fields["model"],
        custom_llm_provider=fields.get("custom_llm_provider"),
        api_base=fields.get("api_base"),
    )
    return str(provider[1])


def _own(provider: str, request: Json) -> Json:
    """Return the arguments that depend on the provider."""
    args: Json = {}
    if provider in _OWN_CLIENT:
        args["client"] = _http_client(provider)
    if provider == "openai" and request["cache_key"] is not None:
        args["prompt_cache_key"] = request["cache_key"]
    # When no key is passed, litellm looks for one in the environment.
    has_key = "api_key" in request["fields"] or request["finds_key"]
    if not has_key and provider not in _KNOW_THEIR_CALLERS:
        args["api_key"] = _NO_KEY
    return args


def _openai_body(stream: Any) -> Any | None:
    """Return the HTTP response from an endpoint that speaks OpenAI's dialect.

    litellm's own iterators take 0.3 ms per chunk, lose chunks that hold "[DONE]" or U+2028, and
    make up the usage and the finish reason that a broken stream lacks.
    """
    is_openai = type(stream).__name__ == "OpenAIChatCompletionStreamingHandler"
    return getattr(stream, "http_response", None) if is_openai else None


async def _pieces(response: Any) -> AsyncGenerator[Json]:
    yield {"type": response.headers.get("content-type", "")}
    async for data in response.aiter_bytes():
        yield {"data": data.decode("latin-1")}


async def _chunks(stream: Any) -> AsyncGenerator[Json]:
    """Yield the chunks as litellm translates them, without made-up finish reasons."""
    async for chunk in stream:
        event: Json = chunk.model_dump(exclude_none=True)
        if stream.received_finish_reason is None:
            for choice in event.get("choices", ()):
                choice.pop("finish_reason", None)
        yield {"chunk": event}


def _http_client(provider: str) -> Any:
    """Return litellm's connection pool, set so that it never carries a key to another host."""
    params = {"follow_redirects": False, "event_hooks": {"response": [_split_lines_well]}}
    from litellm.llms.custom_httpx import http_handler  # noqa: PLC0415 - see load_litellm.

    module: Any = http_handler
    return module.get_async_httpx_client(provider, params=params)


async def _split_lines_well(response: Any) -> None:
    response.aiter_lines = partial(_lines_of, response)


async def _lines_of(response: Any) -> AsyncGenerator[str]:
    splitter = LineSplitter()
    async for data in response.aiter_bytes():
        for line in splitter.feed(data):
            yield line
    for line in splitter.take_rest():
        yield line


@cache
def _failure_types() -> tuple[type[Exception], ...]:
    """Return all exceptions that a call through litellm raises for failures outside our code."""
    import aiohttp  # noqa: PLC0415 - comes with litellm.
    import httpx  # noqa: PLC0415
    import openai  # noqa: PLC0415
    from litellm.llms.base_llm.chat.transformation import BaseLLMException  # noqa: PLC0415

    return (openai.OpenAIError, BaseLLMException, httpx.HTTPError, aiohttp.ClientError, OSError)


def _failure_of(exc: Exception) -> Json:
    """Read another library's exception; that of a broken stream is wrapped in one of litellm's."""
    origin: Any = getattr(exc, "original_exception", None) or exc
    headers = getattr(origin, "litellm_response_headers", None) or getattr(origin, "headers", None)
    status = getattr(origin, "status_code", None)
    return {
        "text": str(origin) or type(origin).__name__,
        "status": status,
        "headers": dict(headers or {}),
    }


_VARIABLES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Otherwise it loads a `.env` from a folder above its own. With a virtual environment inside a
    # project that is the project's file, which could then say where our keys are sent.
    "LITELLM_MODE": "PRODUCTION",
    # The other route to OpenAI-shaped endpoints copies every message through typed dicts: 190 ms
    # instead of 10 for 1,000 messages. It is read at each call.
    "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER": "True",
}
_NO_ENDLESS_LOOP_CHECK = 1 << 60


@cache
def load_litellm() -> Any:
    """Import and configure litellm: no retries, no telemetry, no downloads, quiet.

    It is typed as Any, since its own types are partly unknown.
    """
    # pydantic warns when litellm's types are built, which happens as late as during a call.
    warnings.filterwarnings("ignore", message="Items? .* on TypedDict class")
    os.environ.update(_VARIABLES)
    import litellm  # noqa: PLC0415 - takes 1.7 s and 170 MB.

    module: Any = litellm
    module.suppress_debug_info = True
    module.disable_streaming_logging = True
    module.num_retries = 0
    module.telemetry = False
    module.REPEATED_STREAMING_CHUNK_LIMIT = _NO_ENDLESS_LOOP_CHECK
    # Otherwise the first answer loads a tokenizer (0.15 s, 38 MB) to price a text of no words.
    module.disable_token_counter = True
    module.main.encoding = _LateTokenizer()
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return module


class _LateTokenizer:
    """Stands for litellm's tokenizer, which each request passes along and very few use."""

    def __getattr__(self, name: str) -> Any:
        from litellm.litellm_core_utils import default_encoding  # noqa: PLC0415 - see load_litellm.

        return getattr(default_encoding.encoding, name)


if __name__ == "__main__":
    main(int(sys.argv[1]))
