"""One answer of the model, from the first delta to durable items.

Text and reasoning stream as deltas of an item that begins with its first piece. An attempt that
fails ends that item as `retried`; the partial text of an interrupted one stays in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oh_daemon.contract import events as e
from oh_daemon.contract.errors import ModelError, ToolError
from oh_daemon.contract.items import AgentMessageItem, Contract, Item, ReasoningItem
from oh_daemon.core.actions import plan, to_wire
from oh_daemon.core.approval import highest_risk
from oh_daemon.core.calls import ParsedCall, parse_call
from oh_daemon.core.cancel import Cancelled, CancelToken
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import (
    Json,
    Model,
    ModelAnswer,
    ModelDelta,
    ModelRequest,
    Retry,
    Tool,
    ToolCall,
)
from oh_daemon.core.recovery import ITEM
from oh_daemon.core.secrets import MaskedStream

_CUT = "The answer was cut off at the output limit, so this call did not run. Send less at once."
_SKIPPED = "Skipped: finish ended the turn before this call."


@dataclass(slots=True)
class _Stream:
    """An item under way: what came so far and how much of it clients have."""

    item_id: str
    masked: MaskedStream
    text: str = ""
    sent: int = 0


@dataclass(slots=True)
class _Attempt:
    streams: dict[str, _Stream] = field(default_factory=dict[str, _Stream])
    is_over: bool = False


class Answering:
    """Used for one request, retries included."""

    def __init__(self, conversation: Conversation, tools: Mapping[str, Tool], model: Model) -> None:
        self._conversation = conversation
        self._tools = tools
        self._model = model
        self._batch = new_id()
        self._attempt = _Attempt()

    def ask(self, request: ModelRequest, cancel: CancelToken) -> ModelAnswer:
        """Call the model; its text, reasoning and usage are in the log when this returns."""
        conversation = self._conversation
        started = conversation.clock.monotonic()
        try:
            answer = self._model.complete(
                request, on_delta=self._on_delta, on_retry=self._on_retry, cancel=cancel
            )
        except Cancelled:
            self._end_streams("interrupted")
            raise
        except ModelError:
            self._end_streams("retried")
            raise
        latency_ms = int((conversation.clock.monotonic() - started) * 1000)
        with conversation.changed:
            self._attempt.is_over = True
            self._flush()
            usage = e.UsageUpdated(
                usage=answer.usage,
                model=self._model.name,
                latency_ms=latency_ms,
                context_used=answer.usage.input_tokens,
                context_size=self._model.context_window,
            )
            conversation.append(*self._spoken(answer), usage)
        return answer

    def _spoken(self, answer: ModelAnswer) -> list[Contract]:
        """Reasoning and text as finished items, under the ids their deltas had."""
        events: list[Contract] = []
        if answer.reasoning or answer.thinking_blocks:
            item = self._item("reasoning", answer.reasoning, "completed")
            blocks = item.model_copy(update={"blocks": answer.thinking_blocks})
            events.append(e.ItemCompleted(item=blocks))
        if answer.text:
            events.append(e.ItemCompleted(item=self._item("text", answer.text, "completed")))
        return events

    def _item(
        self, channel: str, text: str, status: str, reason: str | None = None
    ) -> AgentMessageItem | ReasoningItem:
        stream = self._attempt.streams.get(channel)
        shared: Json = {
            "id": stream.item_id if stream else new_id(),
            "text": text,
            "status": status,
            "reason": reason,
            "batch": self._batch,
            "ended_at": None if status == "running" else self._conversation.clock.now(),
        }
        if channel == "reasoning":
            return ReasoningItem.model_validate(shared)
        return AgentMessageItem.model_validate({**shared, "message_id": shared["id"]})

    # Streaming; called from the thread of the model's io loop

    def _on_delta(self, delta: ModelDelta) -> None:
        if delta.channel == "args":
            return
        conversation = self._conversation
        with conversation.changed:
            if self._attempt.is_over:
                return
            stream = self._attempt.streams.get(delta.channel)
            if stream is None:
                stream = _Stream(new_id(), MaskedStream(conversation.masker))
                self._attempt.streams[delta.channel] = stream
                started = self._item(delta.channel, "", "running")
                conversation.append(e.ItemStarted(item=started))
            stream.text += delta.text
            self._send(delta.channel, stream, stream.masked.feed(delta.text))

    def _send(self, channel: str, stream: _Stream, text: str) -> None:
        if text:
            self._conversation.publish_delta(stream.item_id, channel, stream.sent, text)
            stream.sent += len(text)

    def _flush(self) -> None:
        for channel, stream in self._attempt.streams.items():
            self._send(channel, stream, stream.masked.flush())

    def _on_retry(self, retry: Retry) -> None:
        dropped = tuple(stream.item_id for stream in self._attempt.streams.values())
        self._end_streams("retried")
        self._attempt = _Attempt()
        self._conversation.append(
            e.RetryScheduled(
                attempt=retry.attempt,
                max_attempts=retry.max_attempts,
                delay_ms=int(retry.delay_s * 1000),
                error=e.ErrorInfo.of(retry.error),
                drop_item_ids=dropped,
            )
        )

    def _end_streams(self, reason: str) -> None:
        with self._conversation.changed:
            self._attempt.is_over = True
            self._flush()
            for channel, stream in self._attempt.streams.items():
                item = self._item(channel, stream.text, "cancelled", reason)
                self._conversation.append(e.ItemCompleted(item=item))

    # Tool calls

    def take_calls(self, answer: ModelAnswer, *, cut: bool) -> None:
        """Log every call of the answer, as an open action or with its error."""
        events: list[Contract] = []
        taken = set(self._conversation.state.call_ids)
        is_ended = False
        for call in answer.tool_calls:
            unique = _with_unique_id(call, taken)
            taken.add(unique.id)
            parsed = parse_call(unique, self._tools)
            problem = (_SKIPPED, "skipped") if is_ended else (_CUT, "cutOff") if cut else None
            if problem is None and parsed.error is not None:
                problem = (parsed.error, parsed.error_kind or "invalidArguments")
            events.extend(self._action(parsed, problem))
            is_ended = is_ended or (call.name == "finish" and problem is None)
        self._conversation.append(*events)

    def _action(self, parsed: ParsedCall, problem: tuple[str, str] | None) -> list[Contract]:
        item = self._tool_item(parsed, is_planned=problem is None)
        if problem is None:
            return [e.ItemStarted(item=item)]
        text, reason = problem
        failed = item.model_copy(
            update={
                "status": "cancelled" if reason == "skipped" else "failed",
                "reason": reason,
                "content": ({"type": "text", "text": text},),
                "ended_at": self._conversation.clock.now(),
            }
        )
        return [e.ItemStarted(item=item), e.ItemCompleted(item=failed)]

    def _tool_item(self, parsed: ParsedCall, *, is_planned: bool) -> Item:
        call, tool = parsed.call, parsed.tool
        fields: dict[str, Any] = {
            "kind": "toolCall",
            "id": new_id(),
            "status": "pending",
            "startedAt": self._conversation.clock.now(),
            "tool": tool.spec.name if tool else call.name,
            "toolKind": tool.spec.kind if tool else "other",
            "title": call.name,
            "args": parsed.args,
            "summary": parsed.summary,
            "selfRating": parsed.risk,
            "risk": parsed.risk or "unknown",
            "call": {
                "id": call.id,
                "name": call.name,
                "arguments": parsed.arguments,
                "batch": self._batch,
            },
        }
        if tool is not None and is_planned:
            fields |= _planned(tool, parsed)
        return ITEM.validate_python(fields)


def _planned(tool: Tool, parsed: ParsedCall) -> Json:
    """What the tool says of the call; one that builds on an earlier call may not know yet."""
    try:
        intent = plan(tool, parsed.args)
    except ToolError:
        return {}
    return {
        "title": intent.title,
        "risk": highest_risk(intent.risk, parsed.risk),
        "locations": intent.locations,
        **{to_wire(key): value for key, value in intent.item_fields.items()},
    }


def _with_unique_id(call: ToolCall, taken: set[str]) -> ToolCall:
    call_id, n = call.id or f"call_{new_id()[:12]}", 1
    while call_id in taken:
        n += 1
        call_id = f"{call.id}_{n}"
    return ToolCall(call_id, call.name, call.arguments)
