"""Decides when a turn ends or pauses, and why: pure functions of a state and a model's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oh_daemon.contract import plain
from oh_daemon.contract.items import StopReason
from oh_daemon.contract.status import ConversationState, PauseReason
from oh_daemon.core.notices import EMPTY_ANSWER, code_of
from oh_daemon.core.ports import ModelAnswer, ToolResult
from oh_daemon.core.state import State

MAX_NUDGES = 3


@dataclass(frozen=True, slots=True)
class Rest:
    """How a turn ends, and the conversation's status after it."""

    stop_reason: StopReason
    status: ConversationState = "idle"
    reason: PauseReason | None = None
    final_text: str | None = None
    result: Any = None


def rest_before_step(state: State) -> Rest | None:
    """Return how the open turn ends when a limit allows no further step, else None.

    The conversation is paused then: resuming it starts a new turn.
    """
    if state.open_turn.n_steps >= state.max_steps:
        return Rest("maxSteps", "paused", "budget")
    if state.max_cost_usd is not None and state.turn_known_cost_usd >= state.max_cost_usd:
        return Rest("maxCostUsd", "paused", "budget")
    return None


def rest_after_landing(state: State) -> Rest | None:
    """Return how a turn ends in which nothing is to be done but to land what a job has changed."""
    return Rest("endTurn") if state.open_turn.only_lands else None


def rest_when_stuck(stop_reason: StopReason) -> Rest:
    """Return how a circle ends the turn. Wrong calls are the model's fault; others can go on."""
    return Rest("stuck", "paused", "stuck") if stop_reason == "stuck" else Rest(stop_reason)


def rest_after_tool(ending: ToolResult) -> Rest:
    """Return how the turn ends with this result, whose text is the agent's final text."""
    reason = ending.ends_turn or "finished"
    text = "\n".join(part.get("text", "") for part in ending.content)
    status = "finished" if reason == "finished" else "idle"
    return Rest(reason, status, final_text=text, result=ending.value)


def rest_after_answer(answer: ModelAnswer, items: Sequence[plain.Item]) -> Rest | None:
    """Return how the turn ends with this answer, or None when there is more to do."""
    text = answer.text or None
    if answer.finish_reason == "content_filter":
        return Rest("refusal", final_text=text)
    if answer.tool_calls:
        return None
    if answer.finish_reason == "length":
        return Rest("maxTokens", final_text=text)
    if answer.text.strip():
        return Rest("endTurn", final_text=text)
    nudges = [item for item in items[-2 * MAX_NUDGES :] if code_of(item) == EMPTY_ANSWER]
    return Rest("noAnswer") if len(nudges) >= MAX_NUDGES else None
