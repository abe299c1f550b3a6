"""OpenAI's Chat Completions, which most providers speak; pure.

Its fields: "Chat", platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from oh_daemon.features.models.call_pieces import SIGNATURE
from oh_daemon.features.models.dialect import Dialect, ProviderCall, without_none
from oh_daemon.features.models.http import bearer_headers
from oh_daemon.features.models.model_messages import STOP
from oh_daemon.features.models.openai_models import accepted_chat, is_openai
from oh_daemon.features.models.providers import Provider
from oh_daemon.features.models.request_healing import NO_SIGNATURE
from oh_daemon.features.models.request_rules import Rules
from oh_daemon.kernel.ports import Json


def chat_fields(call: ProviderCall) -> Json:
    """Return the fields of a request but for the model's name and `extra_body`."""
    settings, can = call.settings, call.can
    fields = {
        "messages": call.prepared_messages,
        "tools": list(call.tools) or None,
        "tool_choice": call.tool_choice,
        "stop": None if can.calls_functions else list(STOP),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "max_tokens": settings.max_output_tokens,
        "reasoning_effort": call.effort,
        "stream": True,
        "stream_options": {"include_usage": True},
        "prompt_cache_key": call.cache_key,
    }
    return without_none(fields)


def _body(call: ProviderCall) -> Json:
    fields, provider = chat_fields(call), call.provider
    if is_openai(call):
        fields = accepted_chat(call, fields)
    if provider is not None:
        fields = _for_provider(fields, provider, call)
    return {"model": call.model, **fields, **call.settings.extra_body}


def _for_provider(fields: Json, provider: Provider, call: ProviderCall) -> Json:
    """Change what this provider takes otherwise than OpenAI."""
    fields_left_out = provider.leaves_out
    body = _without(fields, fields_left_out)
    body["messages"] = [_sent_message(message, call.can.rules) for message in body["messages"]]
    if "tools" in body and fields_left_out:
        body["tools"] = [_with_schema_without(tool, fields_left_out) for tool in body["tools"]]
    if body.get("tool_choice") == "required":
        body["tool_choice"] = provider.required
    reasons = call.can.reasons
    may_reason = {"always": reasons is not False, "known": reasons, "thinking": True}
    is_effortless = provider.effortless is not None and provider.effortless in call.model
    effort = body.pop("reasoning_effort", None)
    if effort is None or not may_reason[provider.takes_effort] or is_effortless:
        return {**body, **provider.adds}
    if provider.takes_effort == "thinking":
        body["thinking"] = {"type": "disabled" if effort == "none" else "enabled"}
    else:
        body["reasoning_effort"] = effort
    if body.get("thinking") == {"type": "enabled"}:
        # It refuses an answer without its reasoning, which another model's answer has not.
        body["messages"] = [
            {"reasoning_content": " ", **message} if message["role"] == "assistant" else message
            for message in body["messages"]
        ]
    return {**body, **provider.adds}


def _without(fields: Json, names: Collection[str]) -> Json:
    return {name: value for name, value in fields.items() if name not in names}


def _with_schema_without(tool: Json, names: Collection[str]) -> Json:
    function: Json = tool["function"]
    return {**tool, "function": {**function, "parameters": _without(function["parameters"], names)}}


def _sent_message(message: Json, rules: Rules) -> Json:
    """Leave out an empty `content`, and give Gemini's signatures back where they came from."""
    message = without_none(message)
    calls: list[Json] = message.get("tool_calls", [])
    if not rules.needs_signatures and not any(SIGNATURE in call["id"] for call in calls):
        return message
    signed_calls = [_signed_call(call) for call in calls]
    if calls and rules.needs_signatures:
        # Of parallel calls, only the first has one.
        signed_calls[0] = {"extra_content": _seal(NO_SIGNATURE), **signed_calls[0]}
    return {**message, "tool_calls": signed_calls} if calls else message


def _signed_call(call: Json) -> Json:
    signature = call["id"].partition(SIGNATURE)[2]
    return {**call, "extra_content": _seal(signature)} if signature else call


def _seal(signature: str) -> Json:
    return {"google": {"thought_signature": signature}}


def _chunks(events: Iterator[Json]) -> Iterator[Json]:
    return events


CHAT = Dialect("/chat/completions", bearer_headers, _body, "messages", _chunks)
