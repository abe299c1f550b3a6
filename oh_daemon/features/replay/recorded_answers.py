"""Answers of an earlier run in place of a provider's: nothing is sent anywhere.

A log has all of an answer but why it ended, which follows from what comes after it. So do the calls
that were interrupted, and those that did not fit the window.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from oh_daemon.kernel.pending_changes import is_own
from oh_daemon.kernel.ports import (
    Json,
    ModelAnswer,
    ModelDelta,
    ModelRequest,
    Progress,
    Retry,
    ToolCall,
    Traits,
)
from oh_daemon.kernel.records import standing_records
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import errors as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.status import Usage

CUT = frozenset({"interrupted", "outcomeUnknown", "notStarted"})
"""Why an item ended that an interrupt, a crash or a close cut off."""
_ERRORS = {each.kind: each for each in e.MODEL_ERRORS}
_STOPS: dict[str, Literal["length", "content_filter"]] = {
    "maxTokens": "length",
    "refusal": "content_filter",
}
_NO_SUMMARY = "Older steps were dropped without a summary"

Text: TypeAlias = "plain.AgentMessageItem | plain.ReasoningItem"


class RecordedCall(Struct):
    """One call of the model and what came of it: an answer, an error, or an interrupt."""

    seq: int = 0
    ts: str = ""
    """Both are of the event that ended it."""
    attempts: list[tuple[list[Text], plain.RetryScheduled]] = field(
        default_factory=list["tuple[list[Text], plain.RetryScheduled]"]
    )
    """What was streamed before each retry, and the retry."""
    texts: list[Text] = field(default_factory=list["Text"])
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    summary: str = ""
    """What it said instead, if it condensed."""
    usage: plain.UsageUpdated | None = None
    stop: Literal["", "length", "content_filter"] = ""
    request: Json | None = None
    """If it was kept."""
    error: e.ModelError | None = None

    @property
    def is_interrupted(self) -> bool:
        return self.usage is None and self.error is None

    def answer(self) -> ModelAnswer:
        text_by_kind = {item["kind"]: item["text"] for item in self.texts}
        blocks = [block for item in self.texts for block in item.get("blocks", ())]
        usage = self.usage
        thinkers = [item.get("model") for item in self.texts if item["kind"] == "reasoning"]
        return ModelAnswer(
            text=text_by_kind.get("agentMessage", self.summary),
            reasoning=text_by_kind.get("reasoning", ""),
            thinking_blocks=tuple(blocks),
            tool_calls=tuple(self.tool_calls),
            finish_reason=self.stop or ("tool_calls" if self.tool_calls else "stop"),
            usage=model_of(Usage, usage["usage"]) if usage else Usage(),
            model=next(iter(thinkers), usage["model"] if usage else None),
        )


class RecordedAnswers:
    """The model calls that stand in one log."""

    def __init__(
        self, records: Iterable[plain.Record], requests: Iterable[tuple[str, Json]] = ()
    ) -> None:
        """`requests` are those that were kept, each with the time of its answer, in order."""
        self.steps: list[RecordedCall] = []
        self.summaries: list[RecordedCall] = []
        """Calls that condensed."""
        self.task = ""
        """The first words of the user."""
        self.edits_by_patch = False
        self._under_way: dict[bool, RecordedCall] = {False: RecordedCall(), True: RecordedCall()}
        """The next step, and the next call that condenses."""
        self._condenses = self._is_overflowing = self._was_in_tool = False
        valid = standing_records(records)
        begin = first_run(valid)
        self._end_call(valid[0]["event"], self._under_way[False], valid[0])
        for record in valid[begin:]:
            self._add_record(record)
        times = [step.ts for step in self.steps]
        for answered_at, request in requests:
            if (n := bisect_left(times, answered_at)) < len(times):
                self.steps[n].request = request

    def _add_record(self, record: plain.Record) -> None:
        event, call = record["event"], self._under_way[self._condenses]
        match event["type"]:
            case "item.started":
                self._start(event["item"])
            case "item.completed":
                self._complete(event["item"], record)
            case "retry.scheduled":
                call.attempts.append((call.texts, event))
                call.texts = []
            case "notice" if event["title"] == _NO_SUMMARY:
                call.error = e.ModelError(event.get("description", ""))
            case "turn.completed":
                self._end_turn(event["turn"], record)
            case _:
                self._end_call(event, call, record)

    def _end_call(self, event: plain.Event, call: RecordedCall, record: plain.Record) -> None:
        match event["type"]:
            case "usage.updated" if "purpose" not in event:
                call.usage = event
                self._end_step(record)
            case "usage.updated" if event.get("purpose") == "condensation":
                call.usage = event
            case "error.raised" if event["error"]["kind"] in _ERRORS:
                call.error = _error(event["error"])
                self._end_step(record)
            case "conversation.created" | "agent.changed":
                names = {tool["name"] for tool in event["agent"]["tools"]}
                self.edits_by_patch = "apply_patch" in names
            case _:
                pass

    def _end_step(self, record: plain.Record) -> None:
        step = self._under_way[False]
        step.seq, step.ts = record["seq"], record["ts"]
        self.steps.append(step)
        self._under_way[False] = RecordedCall()
        self._is_overflowing = False

    def _start(self, item: plain.Item) -> None:
        if item["kind"] == "condensation":
            self._condenses = True
        elif is_tool_item(item) and not is_own(item) and self.steps:
            call = item["call"]
            self.steps[-1].tool_calls.append(ToolCall(call["id"], call["name"], call["arguments"]))

    def _complete(self, item: plain.Item, record: plain.Record) -> None:
        reason = item.get("reason")
        match item["kind"]:
            case "userMessage":
                self.task = self.task or next(
                    (part["text"] for part in item["content"] if part["type"] == "text"), ""
                )
            case "agentMessage" | "reasoning" if reason != "interrupted":
                self._under_way[False].texts.append(item)
            case "condensation":
                self._condense(item, record)
            case "toolCall" | "command" | "fileChange" | "plan" if self.steps and not is_own(item):
                self._observe(item)
            case _:
                pass

    def _condense(self, item: plain.CondensationItem, record: plain.Record) -> None:
        summary, started = self._under_way[True], self._condenses
        if not summary.is_interrupted:
            summary.summary = item.get("summary", "")
            self.summaries.append(summary)
        self._condenses, self._under_way[True] = False, RecordedCall()
        if item.get("reason") == "overflow":
            # Of what one overflow leaves behind, excerpts of the last answer come last.
            if started or not self._is_overflowing:
                self._under_way[False].error = e.ContextWindowExceededError("it did not fit")
                self._end_step(record)
            self._is_overflowing = started

    def _observe(self, item: plain.ToolItem) -> None:
        step, reason = self.steps[-1], item.get("reason")
        self._was_in_tool = reason in CUT
        if reason == "cutOff":
            step.stop = "length"
        text = item["content"][0].get("text", "") if item["content"] else ""
        if reason == "invalidArguments" and text.startswith("The arguments are "):
            # The log has an empty object in place of what could not be read.
            step.tool_calls = [
                ToolCall(call.id, call.name, "{") if call.id == item["call"]["id"] else call
                for call in step.tool_calls
            ]

    def _end_turn(self, turn: plain.Turn, record: plain.Record) -> None:
        if self.steps and (stop := _STOPS.get(turn.get("stopReason", ""))):
            self.steps[-1].stop = stop
        if turn["status"] == "interrupted" and not self._was_in_tool:
            self._end_step(record)
        self._was_in_tool = False


def first_run(records: Sequence[plain.Record]) -> int:
    """Return the place of the first turn that ran in this log: no copy has changes of status."""
    last = 0
    for n, record in enumerate(records):
        if record["event"]["type"] == "turn.started":
            last = n
        elif record["event"]["type"] == "status.changed":
            return last
    return len(records)


class ReplayModel:
    """Gives each conversation the answers of one recording, in their order. Thread-safe."""

    def __init__(
        self,
        name: str,
        recordings: Sequence[RecordedAnswers],
        check: Callable[[RecordedCall, ModelRequest], object],
        on_interrupt: Callable[[], object] | None = None,
    ) -> None:
        """The first of `recordings` is the conversation's own, the others are of sub-agents.

        `check` is called before each step's answer, and may raise `ModelError`; `on_interrupt`
        where a call was interrupted, or such calls are left out.
        """
        self.name = self.label = name
        self.edits_by_patch = recordings[0].edits_by_patch
        self._check = check
        self._on_interrupt = on_interrupt
        self._lock = threading.Lock()
        self._recordings = [*recordings]
        self._steps: dict[object, deque[RecordedCall]] = {}
        """What is still to come, by the history of the requests."""
        self._summaries = deque(call for each in recordings for call in each.summaries)
        self._next_steps = deque(recordings[0].steps)

    @property
    def traits(self) -> Traits:
        usage = next((call.usage for call in self._next_steps if call.usage), None)
        return Traits(usage.get("contextSize") if usage else None, sees_images=True)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. Raises `ModelError` when the recording is over, too."""
        if request.purpose == "title":
            return ModelAnswer(finish_reason="stop")
        with self._lock:
            calls = self._calls_for(request)
            if not calls:
                raise e.ModelError("the recording ends here; it has no answer to this")
            call = calls.popleft()
        if request.purpose is None:
            self._check(call, request)
        if call.is_interrupted and self._on_interrupt is not None:
            self._on_interrupt()
        progress.cancel.raise_if_cancelled()
        for texts, retry in call.attempts:
            _stream(texts, progress)
            progress.on_retry(_retry(retry))
        _stream(call.texts, progress)
        if call.error is not None:
            raise call.error
        return call.answer()

    def _calls_for(self, request: ModelRequest) -> deque[RecordedCall]:
        if request.purpose is not None:
            return self._summaries if request.purpose == "condensation" else deque()
        if request.history not in self._steps:
            task = str(next(m["content"] for m in request.messages if m["role"] == "user"))
            alike = (each for each in self._recordings if each.task and each.task in task)
            self._steps[request.history] = deque(next(alike, self._recordings[0]).steps)
            if self._on_interrupt is None:
                self._go_to(self._steps[request.history], request)
        self._next_steps = self._steps[request.history]
        return self._next_steps

    def _go_to(self, steps: deque[RecordedCall], request: ModelRequest) -> None:
        """Leave out what a conversation that goes on here has got, and what was interrupted."""
        n_answers = sum(message["role"] == "assistant" for message in request.messages)
        while n_answers and steps:
            step = steps.popleft()
            n_answers -= bool(step.texts or step.tool_calls)
        for call in [step for step in steps if step.is_interrupted]:
            steps.remove(call)


def _stream(texts: Sequence[Text], progress: Progress) -> None:
    for item in texts:
        if item["text"]:
            channel = "text" if item["kind"] == "agentMessage" else "reasoning"
            progress.on_delta(ModelDelta(channel, item["text"]))


def _retry(event: plain.RetryScheduled) -> Retry:
    attempt, most, delay_s = event["attempt"], event["maxAttempts"], event["delayMs"] / 1000
    return Retry(attempt, most, delay_s, _error(event["error"]), event.get("model"))


def _error(info: plain.ErrorInfo) -> e.ModelError:
    kind = _ERRORS.get(info["kind"], e.ModelError)
    return kind(info["message"], retryable=info["retryable"], hint=info.get("hint"))
