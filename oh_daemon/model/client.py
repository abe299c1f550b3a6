"""One streaming call through litellm, which is imported only when needed.

Decides what to send; `events` and `assembly` read the answer, and `failures` explains failures.
Invariant: an answer is returned only when the provider said that it is finished.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

from oh_daemon.contract.errors import ModelError, NetworkError
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.status import Usage
from oh_daemon.core.ports import Json, ModelAnswer, ModelDelta, ModelRequest, Progress, Traits
from oh_daemon.model.assembly import CHUNK, Assembly
from oh_daemon.model.capabilities import (
    Capabilities,
    edits_by_patch,
    find_capabilities,
    input_price,
)
from oh_daemon.model.events import read_events, split_lines
from oh_daemon.model.failures import Failure, explain, unreachable
from oh_daemon.model.io_loop import run_on_loop
from oh_daemon.model.litellm_import import IS_OWN_CALL, load_litellm
from oh_daemon.model.live_metadata import read_live_metadata
from oh_daemon.model.messages import lacks_thinking, prepare_messages
from oh_daemon.model.responses import read_chunks, render_request
from oh_daemon.model.retry import with_retries
from oh_daemon.model.text_tools import STOP, ShownText, in_text, read_answer
from oh_daemon.model.usage import read_usage

_OWN_CLIENT = frozenset({"openai", "anthropic", "gemini"})
"""Providers for which litellm accepts our own HTTP client, which follows no redirects."""
_SAME_NAME = {
    *("model", "api_version", "custom_llm_provider"),
    *("temperature", "top_p"),
}
"""Settings that litellm takes under the same name."""
_KNOW_THEIR_CALLERS = frozenset(
    {"bedrock", "sagemaker", "sagemaker_chat", "sagemaker_nova", "vertex_ai", "vertex_ai_beta"}
)
"""Platforms that use the identity of the machine or its user; a key would replace that."""
_NO_KEY = "none"


class LiteLLM:
    """A model behind an endpoint. Thread-safe."""

    def __init__(
        self,
        settings: LLMSettings,
        *,
        finds_key: bool = True,
        first_delay_s: float = 1.0,
    ) -> None:
        """With `finds_key`, the provider's own variable is used when the settings have no key."""
        self._settings = settings
        self._finds_key = finds_key
        self._first_delay_s = first_delay_s
        self.name = settings.model
        self.label = settings.model

    @property
    def traits(self) -> Traits:
        """Needs litellm's table, so the first use in a process takes as long as the import."""
        return self._traits

    @cached_property
    def _traits(self) -> Traits:
        can, settings = self._capabilities, self._settings
        warning = (
            f"{self.name} is not known to call functions: it is told of the tools in its prompt "
            "and calls them in its text. If it does call functions, set `llm.nativeToolCalling` "
            "to true."
        )
        is_known = can.calls_functions or settings.native_tool_calling is False
        return Traits(
            context_window=can.context_window,
            sees_images=can.sees_images,
            warnings=() if is_known else (warning,),
            input_price=input_price(settings, load_litellm().model_cost),
        )

    @property
    def edits_by_patch(self) -> bool:
        return edits_by_patch(self._settings)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. `on_delta` is called on the io loop's thread."""
        return with_retries(
            lambda: run_on_loop(self._call(request, progress.on_delta), progress.cancel),
            max_attempts=self._settings.max_attempts,
            first_delay_s=self._first_delay_s,
            progress=progress,
        )

    async def _call(
        self, request: ModelRequest, on_delta: Callable[[ModelDelta], None]
    ) -> ModelAnswer:
        # May take seconds: it imports litellm and asks the endpoint.
        settings, can = self._settings, await asyncio.to_thread(lambda: self._capabilities)
        has_functions = can.calls_functions
        assembly = Assembly(on_delta if has_functions else ShownText(on_delta).feed)
        patience = asyncio.timeout(settings.first_token_timeout_s)
        try:
            async with asyncio.timeout(settings.timeout_s), patience:
                await self._receive(request, assembly, patience)
        except TimeoutError:
            raise self._too_slow(is_total=not patience.expired()) from None
        except _failure_types() as exc:
            # Not `from exc`, since the text of the cause may hold the key.
            raise explain(_failure_of(exc), settings) from None
        if assembly.finish_reason is None:
            raise unreachable(f"the answer of {self.name} ended before it was complete")
        answer = assembly.answer(read_usage(assembly.usage, self._table_price))
        answer = replace(answer, model=self.name)
        return answer if has_functions else read_answer(answer)

    async def _receive(
        self, request: ModelRequest, assembly: Assembly, patience: asyncio.Timeout
    ) -> None:
        """Send the request and feed the chunks; each chunk restarts the timeout `patience`."""
        loop = asyncio.get_running_loop()
        is_chat = self._capabilities.api == "chat"
        answer = self._chat(request) if is_chat else self._responses(request)
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                patience.reschedule(loop.time() + self._settings.first_token_timeout_s)
                assembly.feed(chunk)

    async def _chat(self, request: ModelRequest) -> AsyncGenerator[Json]:
        """Yield the answer's chunks in OpenAI's form."""
        fields = self._with_shared(self._chat_fields(request), request)
        IS_OWN_CALL.set(True)
        stream: Any = await load_litellm().acompletion(**fields)
        inner = stream.completion_stream
        response = getattr(inner, "http_response", None)
        is_openai = type(inner).__name__ == "OpenAIChatCompletionStreamingHandler"
        if response is not None and is_openai:
            answer = read_events(response, self._settings, CHUNK)
        else:
            answer = _litellm_chunks(stream)
        try:
            async with aclosing(answer) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await stream.aclose()

    async def _responses(self, request: ModelRequest) -> AsyncGenerator[Json]:
        """Yield the answer of the Responses API as chunks of chat completions."""
        litellm = load_litellm()
        known = litellm.utils.ProviderConfigManager.get_provider_responses_api_config
        if known(provider=provider_of(self._settings), model=self.name) is None:
            # Otherwise litellm would request a chat completion, and without streaming.
            message = f"no Responses API is known for {self.name}"
            raise ModelError(message, hint="set `llm.api` to `chat`, or leave it out")
        fields = self._with_shared(self._responses_fields(request), request)
        stream: Any = await litellm.aresponses(**fields)
        try:
            async with aclosing(read_chunks(stream.response, self._settings)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await stream.response.aclose()

    def _chat_fields(self, request: ModelRequest) -> Json:
        settings, messages = self._settings, self._messages(request)
        is_native = self._capabilities.calls_functions
        return {
            "messages": prepare_messages(messages, self.name, self._capabilities),
            "tools": list(request.tools) or None if is_native else None,
            "stop": None if is_native else list(STOP),
            "top_k": settings.top_k,
            "max_tokens": settings.max_output_tokens,
            "reasoning_effort": self._effort(request.messages),
            "extra_body": settings.extra_body or None,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def _responses_fields(self, request: ModelRequest) -> Json:
        settings, can = self._settings, self._capabilities
        tools = request.tools if can.calls_functions else ()
        known = {"effort": settings.reasoning_effort, "summary": can.reasons and "auto"}
        reasoning = {name: value for name, value in known.items() if value}
        return {
            **render_request(self._messages(request), tools, self.name, can),
            "reasoning": reasoning or None,
            "max_output_tokens": settings.max_output_tokens,
            # litellm's own parameter `stream` only fakes streaming for models not in its table.
            "extra_body": {**settings.extra_body, "stream": True},
        }

    def _messages(self, request: ModelRequest) -> Sequence[Json]:
        if self._capabilities.calls_functions:
            return request.messages
        return in_text(request.messages, request.tools)

    def _with_shared(self, fields: Json, request: ModelRequest) -> Json:
        """Add the fields that both APIs share, and drop those that are None."""
        settings, provider = self._settings, provider_of(self._settings)
        choice = request.tool_choice if fields["tools"] else "auto"
        given: Json = {
            **fields,
            **settings.model_dump(include=_SAME_NAME, by_alias=False),
            "api_base": settings.base_url,
            "api_key": self._key(provider),
            "tool_choice": choice if choice != "auto" else None,
            "extra_headers": settings.extra_headers or None,
            "timeout": settings.timeout_s,
            "prompt_cache_key": request.cache_key if provider == "openai" else None,
            "client": _http_client(provider) if provider in _OWN_CLIENT else None,
        }
        return {name: value for name, value in given.items() if value is not None} | {
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            # Otherwise litellm imports the mcp package, and needs it, for every request with tools.
            "_skip_mcp_handler": True,
        }

    def _effort(self, messages: Sequence[Json]) -> str | None:
        """Return the reasoning effort; None when the model must not think in this tool loop."""
        needs_thinking = self._capabilities.quirks.needs_thinking_in_loop
        if needs_thinking and lacks_thinking(messages, self.name):
            return None
        return self._settings.reasoning_effort

    def _key(self, provider: str) -> str | None:
        key = self._settings.api_key
        if key is not None:
            return key.get_secret_value()
        # When no key is passed, litellm looks for one in the environment.
        return None if self._finds_key or provider in _KNOW_THEIR_CALLERS else _NO_KEY

    @cached_property
    def _capabilities(self) -> Capabilities:
        url = self._settings.base_url or _openai_elsewhere()
        settings = self._settings.model_copy(update={"base_url": url})
        live = read_live_metadata(self._settings)
        return find_capabilities(settings, load_litellm().model_cost, live)

    def _table_price(self, usage: Usage) -> float | None:
        """Return the cost in US dollars by the user's prices, else litellm's table; else None."""
        per_input = self._settings.input_cost_per_token
        per_output = self._settings.output_cost_per_token
        if per_input is not None and per_output is not None:
            return usage.input_tokens * per_input + usage.output_tokens * per_output
        litellm, key = load_litellm(), self._capabilities.table_entry
        if key is None or "input_cost_per_token" not in litellm.model_cost[key]:
            return None
        costs = litellm.cost_per_token(
            model=key,
            custom_llm_provider=litellm.model_cost[key].get("litellm_provider"),
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cache_read_input_tokens=usage.cache_read_tokens,
            cache_creation_input_tokens=usage.cache_write_tokens,
        )
        return sum(costs)

    def _too_slow(self, *, is_total: bool) -> ModelError:
        settings = self._settings
        if is_total:
            return NetworkError(
                f"the answer of {self.name} took longer than {settings.timeout_s:g} s",
                hint="raise `llm.timeoutS` if answers may take that long",
            )
        return NetworkError(
            f"nothing came from {self.name} for {settings.first_token_timeout_s:g} s",
            retryable=True,
            hint="raise `llm.firstTokenTimeoutS` if the model needs longer",
        )


def provider_of(settings: LLMSettings) -> str:
    """Return litellm's name for whoever serves the model. Raises `ModelError` if nobody does."""
    # Not inside: Ctrl-C during this import must not lead to an import of what it left half done.
    litellm = load_litellm()
    try:
        found = litellm.get_llm_provider(
            settings.model,
            custom_llm_provider=settings.custom_llm_provider,
            api_base=settings.base_url,
        )
    except _failure_types() as exc:
        raise explain(_failure_of(exc), settings) from None
    return str(found[1])


def _openai_elsewhere() -> str | None:
    """Return another endpoint for OpenAI's models, from the variables that litellm reads."""
    return os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")


async def _litellm_chunks(stream: Any) -> AsyncGenerator[Json]:
    """Yield other providers' chunks as litellm translates them, without made-up finish reasons."""
    async for chunk in stream:
        event: Json = chunk.model_dump(exclude_none=True)
        if stream.received_finish_reason is None:
            for choice in event.get("choices", ()):
                choice.pop("finish_reason", None)
        yield event


def _http_client(provider: str) -> Any:
    """Return litellm's connection pool, set so that it never carries a key to another host."""
    params = {"follow_redirects": False, "event_hooks": {"response": [_split_lines_well]}}
    from litellm.llms.custom_httpx import http_handler  # noqa: PLC0415 - see load_litellm.

    module: Any = http_handler
    return module.get_async_httpx_client(provider, params=params)


async def _split_lines_well(response: Any) -> None:
    response.aiter_lines = partial(split_lines, response)


@cache
def _failure_types() -> tuple[type[Exception], ...]:
    """Return all exceptions that a call through litellm raises for failures outside our code."""
    import aiohttp  # noqa: PLC0415 - comes with litellm.
    import httpx  # noqa: PLC0415
    import openai  # noqa: PLC0415
    from litellm.llms.base_llm.chat.transformation import BaseLLMException  # noqa: PLC0415

    return (openai.OpenAIError, BaseLLMException, httpx.HTTPError, aiohttp.ClientError, OSError)


def _failure_of(exc: Exception) -> Failure:
    """Read another library's exception; that of a broken stream is wrapped in one of litellm's."""
    origin: Any = getattr(exc, "original_exception", None) or exc
    headers = getattr(origin, "litellm_response_headers", None) or getattr(origin, "headers", None)
    status = getattr(origin, "status_code", None)
    return Failure(str(origin) or type(origin).__name__, status, headers)
