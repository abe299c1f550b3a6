"""The order rules of docs/protocol/events.md, as far as the traffic of one client shows them.

Checked: O1 and the epoch, O3, O4, O5, O6, O7. Not: O2 (disk), O8 (no rule), O9, O10 (effects).
Only certain violations count, because a client may follow a conversation from its middle.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, cast

from oh_daemon.conformance.rpc_process import Json, part

TRANSITIONS = {
    "idle": {"running"},
    "finished": {"running", "idle"},
    "error": {"running", "idle"},
    "paused": {"running", "waiting", "interrupting", "paused", "idle"},
    "running": {"waiting", "pausing", "interrupting", "paused", "idle", "finished", "error"},
    "pausing": {"pausing", "interrupting", "paused", "idle", "finished", "error"},
    "waiting": {"running", "interrupting", "paused", "idle"},
    "interrupting": {"paused", "idle", "finished", "error"},
}
"""Status -> what may follow it, as in the table of docs/protocol/conversations.md."""


@dataclass
class _Request:
    method: str
    params: Json
    sent_at: int


@dataclass
class _Conversation:
    epoch: str | None = None
    last_seq: int | None = None
    status: str | None = None
    started_turns: dict[str, int] = field(default_factory=dict[str, int])
    resumed_turns: set[str] = field(default_factory=set[str])
    """Those that a `conversation/resume` started; any other it only goes on with."""
    ended_turns: set[str] = field(default_factory=set[str])
    started_items: set[str] = field(default_factory=set[str])
    ended_items: set[str] = field(default_factory=set[str])
    streamed_items: set[str] = field(default_factory=set[str])
    n_streamed: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    questions: dict[str, str] = field(default_factory=dict[str, str])
    """Approvals and questions, each with the item that waits for it until it is resolved."""


class OrderingChecker:
    """Feed it everything that is sent and received; `violations` lists what was out of order."""

    def __init__(self) -> None:
        self.offences: list[tuple[str, Json]] = []
        """Each violation, and the message with which it came."""
        self._message: Json = {}
        self._clock = 0
        self._requests: dict[str, _Request] = {}
        self._conversations: defaultdict[str, _Conversation] = defaultdict(_Conversation)
        self._has_opted_out = False

    @property
    def violations(self) -> list[str]:
        return [text for text, _ in self.offences]

    def on_sent(self, message: Json) -> None:
        self._clock += 1
        if "id" not in message or "method" not in message:
            return
        params: Any = message.get("params")
        params = cast("Json", params if isinstance(params, dict) else {})
        self._requests[json.dumps(message["id"])] = _Request(
            str(message["method"]), params, self._clock
        )
        if message["method"] == "initialize":
            self._has_opted_out = '"optOut": ["' in json.dumps(params)

    def on_received(self, message: Json) -> None:
        self._clock += 1
        self._message = message
        params = part(message, "params")
        match message.get("method"):
            case "conversation/event":
                self._on_event(self._conversations[params["conversationId"]], params)
            case "conversation/delta":
                self._on_delta(self._conversations[params["conversationId"]], params)
            case "conversation/gap":
                self._on_gap(self._conversations[params["conversationId"]], params)
            case "approval/request" | "input/request":
                conversation = self._conversations[params["conversationId"]]
                if conversation.last_seq is not None and params["id"] not in conversation.questions:
                    self._violation("O5", f"{params['id']} is asked before it was requested")
            case None:
                # A refused request is over too: its `clientRequestId` may be used again.
                request = self._requests.pop(json.dumps(message.get("id")), None)
                if request is not None and isinstance(message.get("result"), dict):
                    self._on_result(request, message["result"])
            case _:
                pass

    def _on_event(self, conversation: _Conversation, params: Json) -> None:
        self._check_seq(conversation, params)
        self._check_cause(params)
        event, turn_id = params["event"], params.get("turnId")
        if turn_id in conversation.ended_turns and event["type"] != "status.changed":
            self._violation("O6", f"{event['type']} after turn.completed, seq {params['seq']}")
        match event["type"].split("."):
            case ["turn", _]:
                self._on_turn(conversation, turn_id, event)
            case ["item", _]:
                item_id = part(event, "item").get("id") or params["itemId"]
                self._on_item(conversation, item_id, event)
            case ["approval" | "input" as kind, "requested"]:
                conversation.questions[event[kind]["id"]] = event[kind]["itemId"]
            case ["approval" | "input" as kind, "resolved"]:
                conversation.questions[event[f"{kind}Id"]] = ""
            case ["status", "changed"]:
                self._on_status(conversation, event)
            case _:
                pass

    def _check_seq(self, conversation: _Conversation, params: Json) -> None:
        seq, epoch = params["seq"], params["epoch"]
        if conversation.epoch not in (None, epoch):
            self._violation("epoch", f"{epoch} at seq {seq} after {conversation.epoch}")
        expected = seq if conversation.last_seq is None else conversation.last_seq + 1
        if seq < expected or (seq > expected and not self._has_opted_out):
            self._violation("O1", f"seq {seq}, expected {expected}")
        conversation.epoch, conversation.last_seq = epoch, seq

    def _check_cause(self, params: Json) -> None:
        """An event that names the request it comes from follows that request's answer."""
        expected_id = part(params, "cause").get("clientRequestId")
        for request in self._requests.values():
            is_cause = (
                expected_id is not None and request.params.get("clientRequestId") == expected_id
            )
            if is_cause and not _reports_an_end(request):
                self._violation("O3", f"seq {params['seq']} before the answer that caused it")

    def _on_status(self, conversation: _Conversation, event: Json) -> None:
        if conversation.status not in (None, event["from"]) and not self._has_opted_out:
            self._violation("O7", f"status from {event['from']}, it was {conversation.status}")
        if event["to"] not in TRANSITIONS.get(event["from"], ()):
            self._violation("S1", f"status from {event['from']} to {event['to']}")
        conversation.status = event["to"]

    def _on_turn(self, conversation: _Conversation, turn_id: Any, event: Json) -> None:
        if event["type"] == "turn.started":
            conversation.started_turns[turn_id] = self._clock
            conversation.resumed_turns.update({turn_id} if event.get("cause") == "resume" else ())
        if event["type"] == "turn.completed":
            conversation.ended_turns.add(turn_id)

    def _on_item(self, conversation: _Conversation, item_id: str, event: Json) -> None:
        if item_id in conversation.ended_items:
            self._violation("O4", f"{event['type']} of {item_id} after its end")
        if item_id in conversation.questions.values():
            self._violation("O5", f"{event['type']} of {item_id} before it was resolved")
        if event["type"] == "item.started":
            conversation.started_items.add(item_id)
            if item_id in conversation.streamed_items:
                self._violation("O4", f"delta of {item_id} before item.started")
        if event["type"] == "item.completed":
            conversation.ended_items.add(item_id)

    def _on_delta(self, conversation: _Conversation, params: Json) -> None:
        item_id, stream = params["itemId"], (params["itemId"], params["channel"])
        conversation.streamed_items.add(item_id)
        if item_id in conversation.ended_items:
            self._violation("O4", f"delta of {item_id} after item.completed")
        # Dropped text leaves a hole, which is allowed; text that comes twice is wrong.
        if params["offset"] < conversation.n_streamed[stream]:
            self._violation("delta", f"{stream}: offset {params['offset']} was sent before")
        conversation.n_streamed[stream] = params["offset"] + len(params["text"])

    def _on_gap(self, conversation: _Conversation, params: Json) -> None:
        if conversation.last_seq not in (None, params["fromSeq"] - 1):
            self._violation("O1", f"gap from {params['fromSeq']} after seq {conversation.last_seq}")
        conversation.last_seq = params["toSeq"]
        conversation.status = None
        # What happened in the gap is unknown: items may have begun or ended.
        conversation.started_items.clear()
        conversation.streamed_items.clear()
        conversation.questions = dict.fromkeys(conversation.questions, "")

    def _on_result(self, request: _Request, result: Json) -> None:
        conversation = self._conversations[str(request.params.get("conversationId"))]
        match request.method:
            case "conversation/open" | "conversation/subscribe":
                self._on_subscribed(conversation, result)
            case "conversation/interrupt" | "conversation/sendMessage" if _reports_an_end(request):
                self._on_reported_end(conversation, result)
            case "conversation/sendMessage" | "conversation/resume":
                turn_id = str(result.get("turnId"))
                is_resumed = turn_id in conversation.resumed_turns
                starts = "tarted" in result.get("disposition", "started" if is_resumed else "")
                started_at = conversation.started_turns.get(turn_id, 0)
                if starts and started_at > request.sent_at:
                    self._violation("O3", f"turn.started of {result['turnId']} before the answer")
            case "conversation/start" if not result.get("duplicate"):
                if self._conversations[result["conversation"]["id"]].last_seq is not None:
                    self._violation("O3", "an event before the answer to conversation/start")
            case _:
                pass

    def _on_reported_end(self, conversation: _Conversation, result: Json) -> None:
        turn_id = result.get("turnId")
        is_running = (
            turn_id in conversation.started_turns and turn_id not in conversation.ended_turns
        )
        is_over = part(result, "turn").get("status") != "paused"
        if is_running and is_over and result.get("status") != "interrupting":
            self._violation("O3", f"the end of {turn_id} is answered before it is told")

    def _on_subscribed(self, conversation: _Conversation, result: Json) -> None:
        """The answer holds everything up to `lastSeq`; live events go on from there."""
        if conversation.last_seq is not None and conversation.last_seq > result["lastSeq"]:
            self._violation("O3", f"seq {conversation.last_seq} before the answer that precedes it")
        conversation.last_seq = result["lastSeq"]
        conversation.epoch = part(result, "conversation").get("epoch", conversation.epoch)
        conversation.status = None
        pending: list[Json] = result.get("pending", [])
        # Without a subscription, the client may have missed that the others were resolved.
        conversation.questions = dict.fromkeys(conversation.questions, "")
        conversation.questions.update({each["id"]: each["itemId"] for each in pending})

    def _violation(self, rule: str, text: str) -> None:
        self.offences.append((f"{rule}: {text}", self._message))


def _reports_an_end(request: _Request) -> bool:
    is_interrupt = request.method == "conversation/interrupt"
    return is_interrupt or request.params.get("wait") == "completed"
