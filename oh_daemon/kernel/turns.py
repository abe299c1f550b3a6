"""The turns of a conversation: what begins, pauses, continues and ends one, and why it ends.

Requests of clients (`kernel.conversation`) and the worker (`kernel.agent`) are made of these steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import takewhile
from typing import Any

from msgspec import Struct

from oh_daemon.kernel.journal import History, Journal, new_id
from oh_daemon.kernel.notices import EMPTY_ANSWER, WRITTEN_CALL, code_of
from oh_daemon.kernel.ports import ModelAnswer, ToolResult
from oh_daemon.kernel.recovery import closing_events, status_event, superseding_events
from oh_daemon.kernel.state import OpenTurn, State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import InvalidStateError
from oh_daemon.protocol.items import StopReason, TurnCause
from oh_daemon.protocol.status import ConversationState, PauseReason

BUSY = frozenset({"running", "waiting", "pausing", "interrupting"})
_HALTS = BUSY - {"interrupting"}
"""Statuses in which a turn whose log could not be written waits to be resumed."""


def may_resume(state: State) -> bool:
    """Return whether a turn is paused, or the last one ended before its answer was whole."""
    last = state.last_turn
    ended_early = last is not None and (
        last["status"] in {"interrupted", "failed"}
        or last.get("stopReason") in {"maxTokens", "noAnswer"}
    )
    return state.status == "paused" or (state.status in {"idle", "error"} and ended_early)


class Turns:
    """Thread-safe. At most one turn is open."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def start(
        self,
        turn_id: str,
        cause: e.Cause | None,
        *events: Contract,
        because: TurnCause,
        own: dict[str, str] | None = None,
    ) -> None:
        """Start a turn with these events in it; `own` are options that hold for it alone."""
        start_event = e.TurnStarted(cause=because, options=own)
        running_event = self.status_event("running")
        self._journal.append(start_event, *events, running_event, turn_id=turn_id, cause=cause)

    def start_apply(self) -> None:
        """Start a turn for what a job has changed, unless one is under way."""
        if self._journal.state.turn is None:
            self.start(new_id(), None, because="apply")

    def supersede(self) -> None:
        """Drop the actions that still wait for an answer: a new message replaces them."""
        state = self._journal.state
        if state.awaited_requests:
            self._journal.append(*superseding_events(state, self._journal.clock.now()))

    def resume(self, cause: e.Cause | None = None) -> None:
        """Go on with the open turn."""
        status = self.status_event("waiting" if self._journal.state.awaited_requests else "running")
        self._journal.append(e.TurnResumed(), status, cause=cause)

    def unhalt(self) -> None:
        """Try the log again; whatever was under way when it failed has an unknown outcome."""
        journal = self._journal
        if journal.storage_error is None:
            return
        now = journal.clock.now()
        closing = closing_events(journal.state, now, "outcomeUnknown", keep_waiting=True)
        notice = e.Notice(severity="info", title="The log can be written again")
        events: list[Contract] = []
        if journal.state.status in _HALTS:
            # This could not be logged when it happened.
            event = self.status_event("paused", "storage")
            events = [e.TurnPaused(reason="storage"), event]
        journal.append(*closing, notice, *events)
        journal.storage_error = None

    def status_event(self, to: ConversationState, reason: PauseReason | None = None) -> Contract:
        return status_event(self._journal.state, to, reason)

    @property
    def is_paused(self) -> bool:
        """Whether the open turn is paused, until `resume` or a message."""
        turn = self._journal.state.turn
        return turn is not None and turn.is_paused

    def pause(self, reason: PauseReason, cause: e.Cause | None = None) -> None:
        """Pause the open turn, with nothing under way in it, unless it is being interrupted."""
        with self._journal.condition:
            if self._journal.state.status == "interrupting":
                return
            event = self.status_event("paused", reason)
            self._journal.append(e.TurnPaused(reason=reason), event, cause=cause)


def turn_end(history: History, message_id: str, turn_id: str | None) -> Future[plain.Turn]:
    """Resolve with the turn that answers this message, once it has completed or paused.

    `turn_id` is the turn that the message was meant for; if that one completes without having
    seen it, the message starts the next turn.
    """
    state = history.state

    def read(record: plain.Record) -> plain.Turn | None:
        nonlocal turn_id
        event = record["event"]
        match event["type"]:
            case "item.completed" if event["item"].get("messageId") == message_id:
                turn_id = record.get("turnId")
            case "message.dequeued" if event["messageId"] == message_id:
                if event["outcome"] == "removed":
                    raise InvalidStateError(f"message {message_id!r} was taken from the queue")
            case "turn.completed" if record.get("turnId") == turn_id:
                if not _begins_a_turn(state, message_id, event["turn"]):
                    return event["turn"]
            case "turn.paused" if record.get("turnId") == turn_id:
                return _paused_turn(state.open_turn)
            case _:
                pass
        return None

    with history.condition:
        return history.await_record(read)


def _begins_a_turn(state: State, message_id: str, last_turn: plain.Turn) -> bool:
    """Return whether the message is still queued, and the queue goes on after this turn."""
    goes_on = last_turn["status"] == "completed" and state.status in {"idle", "finished"}
    return goes_on and any(m["messageId"] == message_id for m in state.queue)


def _paused_turn(turn: OpenTurn) -> plain.Turn:
    turn_fields: plain.Turn = {
        "id": turn.id,
        "status": "paused",
        "startedAt": turn.started_at,
        "nSteps": turn.n_steps,
    }
    return turn_fields if turn.usage is None else {**turn_fields, "usage": turn.usage}


MAX_NUDGES = 3


class TurnOutcome(Struct, frozen=True):
    """How a turn ends, and the conversation's status after it."""

    stop_reason: StopReason
    status: ConversationState = "idle"
    reason: PauseReason | None = None
    final_text: str | None = None
    result: Any = None


def rest_before_step(state: State) -> TurnOutcome | None:
    """Return how the open turn ends when a limit allows no further step, else None.

    The conversation is paused then: resuming it starts a new turn.
    """
    if state.n_steps_before + state.open_turn.n_steps >= state.max_steps:
        return TurnOutcome("maxSteps", "paused", "budget")
    if state.max_cost_usd is not None and state.turn_known_cost_usd >= state.max_cost_usd:
        return TurnOutcome("maxCostUsd", "paused", "budget")
    return None


def rest_after_apply(state: State) -> TurnOutcome | None:
    """Return how a turn ends in which nothing is to be done but to land what a job has changed."""
    return TurnOutcome("endTurn") if state.open_turn.only_applies else None


def rest_when_stuck(stop_reason: StopReason) -> TurnOutcome:
    """Return how a circle ends the turn. Wrong calls are the model's fault; others can go on."""
    return (
        TurnOutcome("stuck", "paused", "stuck")
        if stop_reason == "stuck"
        else TurnOutcome(stop_reason)
    )


def rest_after_tool(ending: ToolResult) -> TurnOutcome:
    """Return how the turn ends with this result, whose text is the agent's final text."""
    reason = ending.ends_turn or "finished"
    text = "\n".join(part.get("text", "") for part in ending.content)
    status = "finished" if reason == "finished" else "idle"
    return TurnOutcome(reason, status, final_text=text, result=ending.value)


def rest_after_answer(answer: ModelAnswer, items: Sequence[plain.Item]) -> TurnOutcome | None:
    """Return how the turn ends with this answer, or None when there is more to do."""
    text = answer.text or None
    if answer.finish_reason == "content_filter":
        return TurnOutcome("refusal", final_text=text)
    if answer.tool_calls:
        return None
    if answer.finish_reason == "length":
        return TurnOutcome("maxTokens", final_text=text)
    if answer.text.strip():
        is_nudged = any(code_of(item) == WRITTEN_CALL for item in _since_message(items))
        is_call = answer.has_written_call and not is_nudged
        return None if is_call else TurnOutcome("endTurn", final_text=text)
    nudges = [item for item in items[-2 * MAX_NUDGES :] if code_of(item) == EMPTY_ANSWER]
    return TurnOutcome("noAnswer") if len(nudges) >= MAX_NUDGES else None


def _since_message(items: Sequence[plain.Item]) -> Iterator[plain.Item]:
    """Yield the items since the user's last message, newest first."""
    return takewhile(lambda item: item["kind"] != "userMessage", reversed(items))
