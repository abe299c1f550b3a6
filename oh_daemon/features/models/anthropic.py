"""Anthropic's Messages API in terms of chat completions: requests to it, and events from it; pure.

Its fields: docs.claude.com/en/api/messages. What it demands and no setting says is sent as litellm
sends it, so that a conversation may change between both ways any time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oh_daemon.common.plain_text import well_formed_data
from oh_daemon.features.models.assembly import call_chunk, chunks_of, delta_chunk
from oh_daemon.features.models.dialect import Dialect, ProviderCall, without_none
from oh_daemon.features.models.model_messages import STOP
from oh_daemon.features.models.request_healing import parts_of, text_part
from oh_daemon.kernel.ports import Json

_MAX_TOKENS = 4096
"""The limit of an answer where the table has none, and what thinking leaves of it for the rest."""
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192}
"""Tokens to think with, for models that take a budget; the API's minimum is 1,024."""
_CHOICES = {"required": "any", "none": "none"}
_SCHEMA = ("type", "properties", "required", "additionalProperties", "$defs")
"""What it accepts at the top of a tool's schema."""
_EMPTY = "[System: Empty message content sanitised to satisfy protocol]"
"""Stands for a text without any characters but white space, which the API refuses."""
_NO_TOOL: Json = {
    "name": "dummy_tool",
    "description": "This is a dummy tool call",
    "parameters": {},
}
"""The API refuses messages with calls in a request without tools."""
_FROM_SIGN_IN = "sk-ant-oat"
"""How a key begins that a sign-in to a subscription gave."""


# Requests


def _headers(key: str | None) -> dict[str, str]:
    headers = {"anthropic-version": "2023-06-01"}
    if key is None:
        return headers
    if key.startswith("Bearer "):
        return {**headers, "authorization": key}
    if not key.startswith(_FROM_SIGN_IN):
        return {**headers, "x-api-key": key}
    browser_header = {"anthropic-dangerous-direct-browser-access": "true"}
    beta = {"anthropic-beta": "oauth-2025-04-20"}
    return {**headers, **browser_header, **beta, "authorization": f"Bearer {key}"}


def _body(call: ProviderCall) -> Json:
    messages = call.prepared_messages
    has_prompt = bool(messages) and messages[0]["role"] == "system"
    tools = [tool["function"] for tool in call.tools]
    is_native = call.can.calls_functions
    if is_native and not tools and any("tool_calls" in each for each in call.request.messages):
        tools = [_NO_TOOL]
    fields = {
        "model": call.model,
        "system": _system(messages[0]) if has_prompt else None,
        "messages": _turns(messages[has_prompt:]),
        "tools": [_render_tool(function) for function in tools] or None,
        "tool_choice": _tool_choice(call),
        "stop_sequences": None if call.can.calls_functions else list(STOP),
        **_sampling(call),
        **_thinking(call),
        "stream": True,
    }
    return {**without_none(fields), **call.settings.extra_body}


def _tool_choice(call: ProviderCall) -> Json | None:
    choice = call.tool_choice
    if choice == "required" and call.can.row.get("supports_forced_tool_use") is False:
        return {"type": "auto"}
    return {"type": _CHOICES[choice]} if choice else None


def _sampling(call: ProviderCall) -> Json:
    """Return the settings of sampling; newer models refuse all but the default temperature."""
    settings = call.settings
    if call.can.row.get("supports_sampling_params", True):
        return settings.model_dump(include={"temperature", "top_p", "top_k"}, by_alias=False)
    return {"temperature": 1.0} if settings.temperature == 1 else {}


def _thinking(call: ProviderCall) -> Json:
    """Return the effort as the model takes it, and the limit of the answer, thinking included."""
    row, effort = call.can.row, call.effort or "none"
    most = row.get("max_output_tokens") or row.get("max_tokens") or _MAX_TOKENS
    limit = {"max_tokens": call.settings.max_output_tokens or most}
    if effort == "none":
        return limit
    if row.get("supports_adaptive_thinking"):
        # Without `display`, the thinking comes without its text.
        thinking = {"type": "adaptive", "display": "summarized"}
        level = "low" if effort == "minimal" else effort
        return {**limit, "thinking": thinking, "output_config": {"effort": level}}
    if not row.get("supports_reasoning"):
        return limit
    budget = _BUDGETS[effort]
    limit = {"max_tokens": call.settings.max_output_tokens or budget + _MAX_TOKENS}
    return {**limit, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _render_tool(function: Json) -> Json:
    schema: Json = {"properties": {}, **function.get("parameters", {}), "type": "object"}
    if "definitions" in schema:
        # JSON Schema's old name of `$defs`, the only one that the API knows.
        schema = json.loads(json.dumps(schema).replace('"#/definitions/', '"#/$defs/'))
        schema["$defs"] = {**schema.pop("definitions"), **schema.get("$defs", {})}
    schema_part = {name: schema[name] for name in _SCHEMA if name in schema}
    about = {name: function[name] for name in ("name", "description") if name in function}
    return {"type": "custom", **about, "input_schema": schema_part}


def _system(message: Json) -> list[Json] | None:
    return [_render_part(part) for part in parts_of(message["content"]) if part["text"]] or None


def _turns(messages: Sequence[Json]) -> list[Json]:
    """Return messages of alternating roles: a result of a tool is a part of the user's turn."""
    turns = list[Json]()
    for message in messages:
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = list(_BLOCKS.get(message["role"], _text_blocks)(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if turns and turns[-1]["role"] == "assistant":
        # The API refuses white space at the end of what the model is to go on with.
        for block in turns[-1]["content"]:
            if block["type"] == "text":
                block["text"] = block["text"].rstrip()
    return turns


def _text_blocks(message: Json) -> Iterator[Json]:
    for part in parts_of(message["content"]):
        is_empty = part["type"] == "text" and not part["text"].strip()
        yield _render_part({**part, "text": _EMPTY} if is_empty else part)


def _answer_blocks(message: Json) -> Iterator[Json]:
    for block in message.get("thinking_blocks", ()):
        # It refuses thinking that it did not sign.
        if block["type"] != "thinking" or block.get("signature"):
            yield block
    yield from _text_blocks(message)
    for call in message.get("tool_calls", ()):
        function = call["function"]
        name, args = function["name"], _arguments(function["arguments"])
        yield {"type": "tool_use", "id": call["id"], "name": name, "input": args}


def _result_blocks(message: Json) -> Iterator[Json]:
    content = message["content"]
    if not isinstance(content, str):
        content = [_render_part(part) for part in content]
    yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}


_BLOCKS = {"assistant": _answer_blocks, "tool": _result_blocks}


def _arguments(text: str) -> Json:
    args: Json = json.loads(text or "{}")
    # Half a surrogate pair is a valid escape in the text, but no value in strict JSON.
    return well_formed_data(args) if "\\ud" in text.lower() else args


def _render_part(part: Json) -> Json:
    if part["type"] == "image_url":
        block: Json = {"type": "image", "source": _source(part["image_url"]["url"])}
    elif part["type"] == "file":
        file: Json = part["file"]
        source = _source(file["file_data"])
        block = {"type": "document", "source": source, "title": file["filename"]}
    else:
        block = text_part(part["text"])
    mark = part.get("cache_control")
    return {**block, "cache_control": mark} if mark else block


def _source(url: str) -> Json:
    kind, mark, data = url.removeprefix("data:").partition(";base64,")
    if not mark:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": kind, "data": data}


# Events


def _chunks(events: Iterator[Json]) -> Iterator[Json]:
    # A ping, of which nothing becomes, must not count as a piece of the answer.
    return chunks_of(events, _Reader().chunk)


class _Reader:
    """Turns the events of one answer into chunks of chat completions."""

    def __init__(self) -> None:
        self._usage: Json = {}
        self._calls: set[object] = set()
        """Indexes of the blocks that are calls of our tools; others have input in pieces, too."""

    def chunk(self, event: Json) -> Json:
        """Return an event's chunk, empty if not needed. Raises `KeyError` for a broken event."""
        match event.get("type"):
            case "message_start":
                message = event["message"]
                return {"id": message.get("id"), **self._usage_chunk(message.get("usage"))}
            case "content_block_start":
                return self._start_block(event.get("index", 0), event["content_block"])
            case "content_block_delta":
                return self._extend_block(event.get("index", 0), event["delta"])
            case "message_stop":
                return {"done": True}
            case "message_delta":
                end = delta_chunk()
                end["choices"][0]["finish_reason"] = event["delta"].get("stop_reason")
                return {**end, **self._usage_chunk(event.get("usage"))}
            case _:
                return {}

    def _start_block(self, index: int, block: Json) -> Json:
        match block["type"]:
            case "tool_use":
                self._calls.add(index)
                function = {"name": block["name"], "arguments": block.get("input")}
                return call_chunk(index, function, block["id"])
            case "redacted_thinking":
                return delta_chunk(thinking_blocks=[block])
            case "text" if block.get("text"):
                return delta_chunk(content=block["text"])
            case _:
                return {}

    def _extend_block(self, index: int, delta: Json) -> Json:
        match delta.get("type"):
            case "text_delta":
                return delta_chunk(content=delta["text"])
            case "input_json_delta" if index in self._calls:
                return call_chunk(index, {"arguments": delta["partial_json"]})
            case "thinking_delta":
                text = delta["thinking"]
                block = {"type": "thinking", "thinking": text}
                return delta_chunk(reasoning_content=text, thinking_blocks=[block])
            case "signature_delta":
                block = {"type": "thinking", "thinking": "", "signature": delta["signature"]}
                return delta_chunk(thinking_blocks=[block])
            case _:
                return {}

    def _usage_chunk(self, usage: Json | None) -> Json:
        """Return all of the usage so far: later events repeat only some of its figures."""
        self._usage |= without_none(usage or {})
        return {"usage": _usage_of(self._usage)} if self._usage else {}


def _usage_of(usage: Mapping[str, Any]) -> Json:
    """Return it in OpenAI's form, in which the prompt includes what a cache gave or takes."""
    cache_read = usage.get("cache_read_input_tokens", 0)
    cache_write = usage.get("cache_creation_input_tokens", 0)
    parts = [usage.get("input_tokens"), cache_read, cache_write]
    counts = [n for n in parts if isinstance(n, int)]
    details: Json = usage.get("output_tokens_details") or {}
    return {
        "prompt_tokens": sum(counts) if len(counts) == len(parts) else None,
        "completion_tokens": usage.get("output_tokens"),
        "completion_tokens_details": {"reasoning_tokens": details.get("thinking_tokens")},
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_write,
    }


ANTHROPIC = Dialect("", _headers, _body, "messages", _chunks)
