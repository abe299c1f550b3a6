"""The Responses API of `fake_llm`: renders a step as that API's events, and checks the input."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
SEAL = "sealed:"
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def malformed_input(items: Sequence[Json]) -> str | None:
    """Return why OpenAI would refuse the input with status 400, or None if it would not."""
    waiting_ids: list[str] = []
    for n, item in enumerate(items):
        kind = item.get("type", "message")
        if "thinking" in item or "tool_calls" in item:
            return f"Unknown parameter in input[{n}]"
        if kind == "function_call":
            json.loads(item["arguments"])
            waiting_ids.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting_ids:
                return f"No tool call found for function call output with call_id {item['call_id']}"
            waiting_ids.remove(item["call_id"])
        elif kind == "reasoning" and (problem := _bad_reasoning(items[n : n + 2])):
            return problem
    return f"No tool output found for function call {waiting_ids[0]}" if waiting_ids else None


def _bad_reasoning(items: Sequence[Json]) -> str | None:
    item, next_items = items[0], dict(*items[1:])
    if item.get("encrypted_content") != SEAL + "".join(part["text"] for part in item["summary"]):
        return f"The encrypted content of item {item.get('id')} could not be verified"
    if next_items.get("type") != "function_call" and next_items.get("role") != "assistant":
        return f"Item {item['id']} was provided without its required following item"
    return None


@dataclass
class _Answer:
    """An answer being written: its finished items, and the one that is still open."""

    n: int
    output: list[Json] = field(default_factory=list)
    open: Json | None = None
    key: object = None

    def event(self, kind: str, **fields: Any) -> bytes:
        data = json.dumps({"type": kind, **fields}, separators=(",", ":"))
        return f"event: {kind}\ndata: {data}\n\n".encode()

    def delta(self, delta: Json) -> bytes:
        first_call = next(iter(delta.get("tool_calls", ())), None)
        if first_call is not None:
            events_sent = self._begin(("function_call", first_call["index"]), first_call)
            arguments = first_call["function"].get("arguments", "")
            self._item["arguments"] += arguments
            return events_sent + self._piece("response.function_call_arguments.delta", arguments)
        if "reasoning_content" in delta:
            events_sent = self._begin("reasoning", delta)
            text = delta["reasoning_content"]
            self._item["summary"] = [*self._item["summary"], {"type": "summary_text", "text": text}]
            return events_sent + self._piece("response.reasoning_summary_text.delta", text)
        events_sent = self._begin("message", delta)
        text = delta.get("content") or ""
        self._item["content"][0]["text"] += text
        return events_sent + self._piece("response.output_text.delta", text)

    @property
    def _item(self) -> Json:
        assert self.open is not None
        return self.open

    def _piece(self, kind: str, text: str) -> bytes:
        return self.event(kind, output_index=len(self.output), delta=text) if text else b""

    def _begin(self, key: object, source: Json) -> bytes:
        if key == self.key:
            return b""
        final_events = self.finish()
        n = len(self.output)
        ids = f"{self.n}_{n}"
        self.key = key
        if key == "message":
            part = {"type": "output_text", "text": "", "annotations": []}
            self.open = {"id": f"msg_{ids}", "type": "message", "role": "assistant"}
            self.open |= {"status": "completed", "content": [part]}
        elif key == "reasoning":
            self.open = {"id": f"rs_{ids}", "type": "reasoning", "summary": []}
        else:
            name = source["function"]["name"]
            self.open = {"id": f"fc_{ids}", "type": "function_call", "call_id": source["id"]}
            self.open |= {"name": name, "arguments": ""}
        return final_events + self.event(
            "response.output_item.added", output_index=n, item=self.open
        )

    def finish(self) -> bytes:
        """Close the open item, if any, and return its final event; reasoning gets its seal."""
        item, n = self.open, len(self.output)
        if item is None:
            return b""
        if item["type"] == "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            item["encrypted_content"] = SEAL + text
        self.open, self.key = None, None
        self.output.append(item)
        return self.event("response.output_item.done", output_index=n, item=item)


def response_parts(
    deltas: Iterable[Json], finish: str | None, usage: Json | None, n: int
) -> list[bytes]:
    """Return the server-sent events: the first one, one element per delta, then the last ones."""
    answer = _Answer(n)
    response: Json = {"id": f"resp_{n}", "object": "response", "created_at": 1_700_000_000}
    response |= {"model": "fake", "status": "in_progress", "error": None, "usage": None}
    parts = [answer.event("response.created", response={**response, "output": []})]
    parts += [answer.delta(delta) for delta in deltas]
    parts.append(answer.finish())
    if finish is not None:
        reason = _INCOMPLETE.get(finish)
        status = "incomplete" if reason else "completed"
        response |= {"status": status, "output": answer.output, "usage": _usage(usage)}
        response["incomplete_details"] = {"reason": reason} if reason else None
        parts.append(answer.event(f"response.{status}", response=response))
    return parts


def _usage(usage: Json | None) -> Json | None:
    if usage is None:
        return None
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    names |= {f"{old}_details": f"{new}_details" for old, new in names.items()}
    return {names.get(name, name): value for name, value in usage.items()}
