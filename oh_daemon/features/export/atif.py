"""Renders a conversation as a trajectory in ATIF 1.8, as benchmarks and trainers read it.

https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md has the format.
An agent's step is one answer of the model with the results of its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from oh_daemon.features.export import transcript
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.records import standing_records
from oh_daemon.kernel.state import State, is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.system.private_files import parse_object

_TOKENS = {
    "prompt_tokens": "inputTokens",
    "completion_tokens": "outputTokens",
    "cached_tokens": "cacheReadTokens",
}


def render_trajectory(state: State, records: Sequence[plain.Record]) -> str:
    """Return the trajectory as JSON, with the arguments of calls as the model wrote them."""
    from importlib.metadata import version  # noqa: PLC0415 - slow.

    steps = _Steps()
    for record in standing_records(records):
        steps.take(record)
    agent: Json = {
        "name": "oh-daemon",
        "version": version("oh-daemon"),
        "model_name": state.agent["model"],
        "tool_definitions": [_tool(tool) for tool in state.agent.get("tools", ())] or None,
    }
    total = {f"total_{name}": value for name, value in _metrics(state.usage or {}).items()}
    trajectory = {
        "schema_version": "ATIF-v1.8",
        "session_id": state.conversation_id,
        "trajectory_id": state.conversation_id,
        "agent": {name: value for name, value in agent.items() if value is not None},
        "steps": [{"step_id": n, **step} for n, step in enumerate(steps.all, 1)],
        "final_metrics": {**total, "total_steps": len(steps.all)},
        "notes": "The totals also count calls outside of steps, such as for titles and summaries.",
    }
    return orjson.dumps(trajectory, option=orjson.OPT_INDENT_2).decode() + "\n"


class _Steps(Struct):
    """The steps of some records."""

    all: list[Json] = field(default_factory=list[Json])
    _by_batch: dict[str, Json] = field(default_factory=dict[str, Any])
    _last: Json | None = None
    """The agent's newest step."""
    _usage: tuple[str, dict[str, float]] | None = None
    """The model and usage of an answer whose first item comes later."""

    def take(self, record: plain.Record) -> None:
        event = record["event"]
        match event["type"]:
            case "conversation.created":
                self._add(record, "system", event["agent"]["systemPrompt"])
            case "usage.updated" if "purpose" not in event:
                self._pay(event)
            case "item.started":
                self._step_of(record, event["item"])
            case "item.completed" if event["item"].get("reason") != "retried":
                self._complete(record, event["item"])
            case _:
                pass

    def _add(self, record: plain.Record, source: str, message: str) -> Json:
        step: Json = {"timestamp": record["ts"], "source": source, "message": message}
        self.all.append(step)
        return step

    def _step_of(self, record: plain.Record, item: plain.Item) -> Json | None:
        """Return the agent's step of an item, if it is part of an answer."""
        batch = item["call"]["batch"] if is_tool_item(item) else item.get("batch")
        if batch is None:
            return None
        if batch not in self._by_batch:
            step = self._by_batch[batch] = self._last = self._add(record, "agent", "")
            if self._usage is not None:
                _charge(step, *self._usage)
                self._usage = None
        return self._by_batch[batch]

    def _pay(self, event: plain.UsageUpdated) -> None:
        """Give the usage to the answer that has begun without one, else to the next."""
        usage = _metrics(event["usage"])
        if self._last is not None and "metrics" not in self._last:
            _charge(self._last, event["model"], usage)
        else:
            earlier = self._usage[1] if self._usage else {}
            usage = {name: value + earlier.get(name, 0) for name, value in usage.items()}
            self._usage = event["model"], usage

    def _complete(self, record: plain.Record, item: plain.Item) -> None:
        step = self._step_of(record, item)
        if item["kind"] == "userMessage":
            self._add(record, "user", transcript.message_text(item))
        elif item["kind"] == "notice":
            self._add(record, "system", item.get("note") or transcript.notice_of(item))
        elif item["kind"] == "condensation" and (summary := item.get("summary")):
            self._add(record, "system", summary)
        elif step is None:
            pass
        elif is_tool_item(item):
            _call(step, item)
        elif item["kind"] == "agentMessage":
            step["message"] = f"{step['message']}\n\n{item['text']}".strip()
        elif item["kind"] == "reasoning":
            earlier = step.get("reasoning_content", "")
            step["reasoning_content"] = f"{earlier}\n\n{item['text']}".strip()


def _call(step: Json, item: plain.ToolItem) -> None:
    call, results = item["call"], step.setdefault("observation", {"results": []})["results"]
    arguments = parse_object(call["arguments"].encode("utf-8", "replace"))
    if not arguments and call["arguments"].strip() not in {"", "{}"}:
        arguments = {"unreadable": call["arguments"]}
    step.setdefault("tool_calls", []).append(
        {"tool_call_id": call["id"], "function_name": call["name"], "arguments": arguments}
    )
    # All that the model read, also what people are not shown.
    content = "\n".join(p["text"] for p in item.get("content", ()) if p.get("type") == "text")
    results.append(
        {"source_call_id": call["id"], "content": content, "extra": {"status": item["status"]}}
    )


def _charge(step: Json, model: str, usage: dict[str, float]) -> None:
    step["model_name"], step["metrics"] = model, usage


def _metrics(usage: plain.Usage | Json) -> dict[str, float]:
    """Return tokens, and the cost if it is known."""
    counts: dict[str, float] = {name: usage.get(own_name, 0) for name, own_name in _TOKENS.items()}
    cost = usage.get("cost")
    return counts | {"cost_usd": cost["amount"]} if cost else counts


def _tool(tool: Json) -> Json:
    """Return a tool in OpenAI's form."""
    function = {"name": tool["name"], "description": tool.get("description", "")}
    return {"type": "function", "function": function | {"parameters": tool.get("inputSchema", {})}}
