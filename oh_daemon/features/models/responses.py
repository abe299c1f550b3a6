"""OpenAI's Responses API in terms of chat completions: requests to it, and events from it; pure.

Nothing is kept on the provider's side (`store` is false): each request has the whole conversation,
including this model's encrypted reasoning, unchanged and in its place among the answer's parts.
Its fields: "Responses", platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oh_daemon.features.models.assembly import call_chunk, chunks_of, delta_chunk
from oh_daemon.features.models.capabilities import Capabilities
from oh_daemon.features.models.dialect import Dialect, ProviderCall, without_none
from oh_daemon.features.models.http import bearer_headers
from oh_daemon.features.models.model_messages import own_thinking, taken_by
from oh_daemon.features.models.openai_models import (
    accepted_effort,
    accepted_functions,
    accepted_sampling,
)
from oh_daemon.kernel.ports import Json

_CHANNELS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_content",
    "response.reasoning_summary_text.delta": "reasoning_content",
}
_LEAST_OUTPUT = 16
"""The API refuses a smaller limit of tokens."""


# Requests


def responses_fields(call: ProviderCall) -> Json:
    """Return the fields of a request but for the model's name and `extra_body`."""
    settings, can = call.settings, call.can
    limit = settings.max_output_tokens
    reasoning_fields = {"effort": accepted_effort(call), "summary": can.reasons and "auto"}
    fields = {
        **render_request(call.messages, accepted_functions(call), settings.model, can),
        "tool_choice": call.tool_choice,
        "reasoning": {name: value for name, value in reasoning_fields.items() if value} or None,
        **accepted_sampling(call),
        "max_output_tokens": limit and max(limit, _LEAST_OUTPUT),
        "prompt_cache_key": call.cache_key,
        "stream": True,
    }
    return without_none(fields)


def render_request(
    messages: Sequence[Json], functions: Sequence[Json], model: str, can: Capabilities
) -> Json:
    """Return the fields of a request; those that are None are not to be sent."""
    messages = taken_by(messages, can)
    has_prompt = bool(messages) and messages[0]["role"] == "system"
    remaining = messages[1:] if has_prompt else messages
    return {
        "instructions": messages[0]["content"] if has_prompt else None,
        "input": [item for message in remaining for item in _render(message, model)],
        "tools": [_render_tool(function) for function in functions] or None,
        "include": ["reasoning.encrypted_content"] if can.reasons is not False else None,
        "store": False,
    }


def _render_tool(function: Json) -> Json:
    # With `strict`, the schema would have to require every property.
    return {"type": "function", **function, "strict": False}


def _render(message: Json, model: str) -> Iterator[Json]:
    match message["role"]:
        case "assistant":
            yield from _render_answer(message, model)
        case "tool":
            output = _render_content(message["content"])
            call_id = message["tool_call_id"]
            yield {"type": "function_call_output", "call_id": call_id, "output": output}
        case role:
            content = _render_content(message["content"])
            if not isinstance(content, str):
                # The vendor's types require it here, and only here.
                content = [
                    {**part, "detail": "auto"} if part["type"] == "input_image" else part
                    for part in content
                ]
            yield {"role": role, "content": content}


def _render_content(content: str | list[Json]) -> str | list[Json]:
    return content if isinstance(content, str) else [_render_part(part) for part in content]


def _render_part(part: Json) -> Json:
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"]}
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    return {"type": "input_text", "text": part["text"]}


def _render_answer(message: Json, model: str) -> Iterator[Json]:
    """Yield the parts in the order in which they came, as reasoning belongs to what follows it."""
    thinking = own_thinking(message, model)
    text = message["content"]
    calls = [_render_call(call) for call in message.get("tool_calls", ())]
    for block in thinking["blocks"] if thinking else ():
        match block["type"]:
            case "reasoning":
                yield without_none(block)
            case "message" if text:
                yield {**block, "role": "assistant", "content": text}
                text = None
            case "function_call" if calls:
                yield calls.pop(0)
            case _:
                pass
    if text:
        yield {"role": "assistant", "content": text}
    yield from calls


def _render_call(call: Json) -> Json:
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


# Events


def read_chunks(events: Iterator[Json]) -> Iterator[Json]:
    """Yield the answer in a stream's events as chunks of chat completions."""
    return chunks_of(events, Reader().chunk)


class Reader:
    """Turns the events of one answer into chunks of chat completions."""

    def __init__(self) -> None:
        self._output: list[Json] = []
        self._streamed_indexes: set[int] = set()
        """Indexes of the output parts that came in deltas; other parts come as a whole."""

    def chunk(self, event: Json) -> Json:
        """Return an event's chunk, empty if not needed. Raises `KeyError` for a broken event."""
        kind, index = event.get("type", ""), event.get("output_index", 0)
        match kind:
            case _ if kind in _CHANNELS:
                self._streamed_indexes.add(index)
                return delta_chunk(**{_CHANNELS[kind]: event["delta"]})
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return delta_chunk(reasoning_content="\n\n")
            case "response.function_call_arguments.delta":
                self._streamed_indexes.add(index)
                return call_chunk(index, {"arguments": event["delta"]})
            case "response.output_item.added" if event["item"].get("type") == "function_call":
                item = event["item"]
                return call_chunk(index, {"name": item["name"]}, item["call_id"])
            case "response.output_item.done":
                return self._finish_item(index, event["item"])
            case "response.completed" | "response.incomplete":
                return self._end(event["response"])
            case _:
                return {}

    def _finish_item(self, index: int, item: Json) -> Json:
        kind, is_new = item.get("type"), index not in self._streamed_indexes
        if kind == "reasoning":
            # Without either it only refers to reasoning that the provider was told not to store.
            if item.get("encrypted_content") or item.get("content"):
                self._output.append(item)
            return {}
        self._output.append({key: item[key] for key in ("type", "phase") if item.get(key)})
        if kind == "function_call" and is_new:
            function = {"name": item["name"], "arguments": item["arguments"]}
            return call_chunk(index, function, item["call_id"])
        if kind == "message" and is_new:
            return delta_chunk(
                content="".join(p.get("text", "") for p in item.get("content") or ())
            )
        return {}

    def _end(self, response: Json) -> Json:
        has_thinking = any(item["type"] == "reasoning" for item in self._output)
        details: Json = response.get("incomplete_details") or {}
        # An incomplete answer has a reason; one that was cancelled has its status only.
        reason = details.get("reason") or response.get("status") or "completed"
        end = delta_chunk(thinking_blocks=self._output if has_thinking else [])
        end["choices"][0]["finish_reason"] = reason
        return {**end, "id": response.get("id"), "usage": _usage(response.get("usage"))}


def _usage(usage: Json | None) -> Json | None:
    if usage is None:
        return None
    return {
        **usage,
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens_details": usage.get("output_tokens_details"),
    }


def _body(call: ProviderCall) -> Json:
    return {"model": call.model, **responses_fields(call), **call.settings.extra_body}


RESPONSES = Dialect("/responses", bearer_headers, _body, "input", read_chunks)
