"""One answer of the model, from the first delta to durable items.

Text and reasoning stream as deltas of an item that starts with its first piece. When an attempt
fails, its item ends as `retried`; when it is interrupted, the partial text stays in the log.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.common.plain_text import display_escaped
from oh_daemon.kernel.approval_requests import highest_risk
from oh_daemon.kernel.journal import Journal, TextStream, new_id
from oh_daemon.kernel.notices import warn
from oh_daemon.kernel.ports import (
    Json,
    Model,
    ModelAnswer,
    ModelDelta,
    ModelRequest,
    Progress,
    Retry,
    Tool,
    ToolCall,
)
from oh_daemon.kernel.tool_calls import ParsedCall, parse_call, plan
from oh_daemon.kernel.usage import bill_model
from oh_daemon.protocol import events as e
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import ModelError, ToolError
from oh_daemon.protocol.forms import ItemFields, new_item
from oh_daemon.protocol.items import AgentMessageItem, ModelCall, ReasoningItem

_CUT = "The answer was cut off at the output limit, so this call did not run. Send less at once."
_MAX_PATH_CHARS = 200


class _Stream(Struct):
    """An item that still streams, and its text so far."""

    text: TextStream
    started_at: str
    ended_at: str | None = None
    """When another channel of the answer started; None while this one continues."""
    pieces: list[str] = field(default_factory=list[str])


class Answering:
    """Handles one model request, including its retries."""

    def __init__(self, journal: Journal, tools: Mapping[str, Tool], model: Model) -> None:
        self._journal = journal
        self._tools = tools
        self._model = model
        self._batch = new_id()
        self._streams: dict[str, _Stream] = {}
        self._is_over = False

    def ask(self, request: ModelRequest, cancel: CancelToken) -> ModelAnswer:
        """Call the model and, before returning, log its whole answer, tool calls as actions."""
        journal = self._journal
        try:
            progress = Progress(cancel, self._on_delta, self._on_retry)
            answer, usage = bill_model(self._model, request, progress, journal.clock)
        except (Cancelled, ModelError) as exc:
            self._is_over = True
            self._drop_streams("interrupted" if isinstance(exc, Cancelled) else "retried")
            raise
        actions = self._actions(answer)
        with journal.condition:
            self._is_over = True
            self._flush()
            journal.append(*self._message_events(answer), usage, *actions)
            for caveat in answer.caveats:
                warn(journal, caveat)
        return answer

    def _message_events(self, answer: ModelAnswer) -> list[Contract]:
        """Return reasoning and text as finished items, under the ids that their deltas had."""
        events: list[Contract] = []
        if answer.reasoning or answer.thinking_blocks:
            thinking = {"blocks": self._loggable_blocks(answer), "model": answer.model}
            events.append(self._completion_event("reasoning", answer.reasoning, **thinking))
        if answer.text:
            events.append(self._completion_event("text", answer.text))
        return events

    def _loggable_blocks(self, answer: ModelAnswer) -> tuple[Json, ...]:
        """Return no blocks if the log would mask part of one: providers refuse changed blocks."""
        text = json.dumps(answer.thinking_blocks, ensure_ascii=False)
        return answer.thinking_blocks if self._journal.masker.mask(text) == text else ()

    def _completion_event(self, channel: str, text: str, **fields: Any) -> e.ItemCompleted:
        stream = self._streams.get(channel)
        item_id = stream.text.item_id if stream else new_id()
        ended_at = (stream and stream.ended_at) or self._journal.clock.now()
        if stream:
            fields["started_at"] = stream.started_at
        item = self._item(channel, item_id, text=text, ended_at=ended_at, **fields)
        return e.ItemCompleted(item=item)

    def _item(self, channel: str, item_id: str, **fields: Any) -> AgentMessageItem | ReasoningItem:
        if channel == "reasoning":
            return ReasoningItem(id=item_id, batch=self._batch, **fields)
        return AgentMessageItem(id=item_id, message_id=item_id, batch=self._batch, **fields)

    # Streaming; called from the thread of the model's io loop

    def _on_delta(self, delta: ModelDelta) -> None:
        journal = self._journal
        with journal.condition:
            if self._is_over:
                return
            stream = self._streams.get(delta.channel)
            if stream is None:
                stream = self._begin(delta.channel)
            stream.ended_at = None
            stream.pieces.append(delta.text)
            stream.text.write(delta.text)

    def _begin(self, channel: str) -> _Stream:
        journal = self._journal
        now = journal.clock.now()
        for before in self._streams.values():
            before.ended_at = before.ended_at or now
        stream = _Stream(TextStream(journal, new_id(), channel), now)
        self._streams[channel] = stream
        item = self._item(channel, stream.text.item_id, status="running", started_at=now)
        journal.append(e.ItemStarted(item=item))
        return stream

    def _on_retry(self, retry: Retry) -> None:
        item_ids = tuple(stream.text.item_id for stream in self._streams.values())
        self._drop_streams("retried")
        self._journal.append(retry_event(retry, item_ids))

    def _drop_streams(self, reason: str) -> None:
        """End the streaming items with the text they have; another attempt starts new ones."""
        with self._journal.condition:
            self._flush()
            ending = {"status": "cancelled", "reason": reason}
            for channel, stream in self._streams.items():
                item = self._completion_event(channel, "".join(stream.pieces), **ending)
                self._journal.append(item)
            self._streams = {}

    def _flush(self) -> None:
        for stream in self._streams.values():
            stream.text.close()

    # Tool calls

    def _actions(self, answer: ModelAnswer) -> list[Contract]:
        """Return the events of every call: an open action, or one that failed with its error."""
        if answer.finish_reason == "content_filter":
            return []
        events: list[Contract] = []
        ids = set[str]()
        is_cut = answer.finish_reason == "length"
        for call in answer.tool_calls:
            unique = _with_unique_id(call, (self._journal.state.call_ids, ids))
            ids.add(unique.id)
            # Titles are cut from the arguments, and a secret cut short is no longer recognized.
            arguments = self._journal.masker.mask(unique.arguments)
            parsed_call = parse_call(replace(unique, arguments=arguments), self._tools)
            problem = (_CUT, "cutOff") if is_cut else None
            if problem is None and parsed_call.error is not None:
                problem = (parsed_call.error, parsed_call.error_kind or "invalidArguments")
            events.extend(self._action(parsed_call, problem))
        return events

    def _action(self, call: ParsedCall, problem: tuple[str, str] | None) -> list[Contract]:
        fields = self._tool_fields(call)
        if problem is None:
            fields |= _planned_fields(call)
        event = e.ItemStarted(item=new_item(fields))
        if problem is None:
            return [event]
        text, reason = problem
        fields |= {
            "status": "failed",
            "reason": reason,
            "content": ({"type": "text", "text": text},),
            "endedAt": self._journal.clock.now(),
        }
        return [event, e.ItemCompleted(item=new_item(fields))]

    def _tool_fields(self, parsed_call: ParsedCall) -> ItemFields:
        call, tool = parsed_call.call, parsed_call.tool
        return {
            "kind": "toolCall",
            "id": new_id(),
            "status": "pending",
            "startedAt": self._journal.clock.now(),
            "tool": tool.spec.name if tool else call.name,
            "toolKind": tool.spec.kind if tool else "other",
            "title": _plain_title(parsed_call),
            "args": parsed_call.args,
            "summary": parsed_call.summary,
            "selfRating": parsed_call.risk,
            "risk": parsed_call.risk or "unknown",
            "call": ModelCall(
                id=call.id, name=call.name, arguments=parsed_call.arguments, batch=self._batch
            ),
        }


def retry_event(retry: Retry, item_ids: tuple[str, ...] = ()) -> e.RetryScheduled:
    return e.RetryScheduled(
        attempt=retry.attempt,
        max_attempts=retry.max_attempts,
        delay_ms=int(retry.delay_s * 1000),
        error=e.ErrorInfo.of(retry.error),
        drop_item_ids=item_ids,
        model=retry.model,
    )


def _plain_title(call: ParsedCall) -> str:
    """Return a title for a call without the tool's plan: its name, and its path if it has one."""
    path = call.args.get("path")
    path_text = display_escaped(path) if isinstance(path, str) else ""
    return f"{call.call.name} {path_text[:_MAX_PATH_CHARS]}".rstrip()


def _planned_fields(call: ParsedCall) -> ItemFields:
    """Return the item fields from the tool's plan; none if it must wait for an earlier call."""
    if call.tool is None:
        return {}
    try:
        intent = plan(call.tool, call.args)
    except ToolError:
        return {}
    return {
        "title": intent.title,
        "risk": highest_risk(intent.risk, call.risk),
        "locations": intent.locations,
        **intent.item_fields,
    }


def _with_unique_id(call: ToolCall, id_sets: Sequence[Container[str]]) -> ToolCall:
    call_id, n = call.id or f"call_{new_id()[:12]}", 1
    while any(call_id in ids for ids in id_sets):
        n += 1
        call_id = f"{call.id}_{n}"
    return ToolCall(call_id, call.name, call.arguments)
