"""Pure decisions about sub-agents: what they inherit, and what their turns result in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from oh_daemon.contract.settings import stricter
from oh_daemon.core.plain_text import shorten
from oh_daemon.core.ports import Json
from oh_daemon.core.state import State

MAX_RESULT_CHARS = 16 << 10
NOT_FOR_SUB_AGENTS = frozenset({"delegate", "ask"})
"""Tools that sub-agents lack: they cannot delegate, and ask the user by approvals only."""
_REASONS = {
    "maxSteps": "it reached its limit of steps",
    "maxCostUsd": "the limit of cost was reached",
    "maxCostUsdPerConversation": "the limit of cost was reached",
    "maxCostUsdPerDay": "the limit of cost of this day was reached",
    "maxMinutes": "it reached its limit of time",
    "needsInput": "it asked a question instead of finishing",
    "stuck": "it went in circles",
    "noResult": "it ended without the result that was asked for",
    "noAnswer": "the model gave no answer",
    "cancelled": "it was interrupted",
    "user": "it was paused by the user",
    "notStarted": "the turn ended before it began",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A task. With `resume`, the id of a sub-agent's conversation, `text` is its next message."""

    text: str
    title: str
    agent: str
    resume: str | None = None
    result_schema: Json | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended; `text` is the last that the sub-agent said."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str | None
    text: str
    result: Any = None
    """JSON that fits the task's schema."""


def inherited_options(own_mode: str | None, parent: Mapping[str, str]) -> dict[str, str]:
    """Return a sub-agent's mode and approval: the parent's, but its own mode if stricter."""
    mode = stricter("mode", parent["mode"], own_mode or parent["mode"])
    return {"mode": mode, "approval": parent["approval"]}


def outcome_of(turn: Mapping[str, Any], state: State) -> Outcome:
    """Return what came of a turn that ended, or was paused for the `reason` in it."""
    reason = turn.get("stopReason") or turn.get("reason") or "paused"
    text = turn.get("finalText") or _last_words(state)
    if error := turn.get("error"):
        return Outcome("failed", reason, f"{error['message']}\n{text}".strip())
    if reason in {"finished", "endTurn"}:
        if state.result_schema is not None and turn.get("result") is None:
            return Outcome("failed", "noResult", text)
        return Outcome("completed", None, text, turn.get("result"))
    return Outcome("cancelled" if reason in {"cancelled", "user"} else "failed", reason, text)


def _last_words(state: State) -> str:
    said = (item.get("text") for item in reversed(state.items) if item["kind"] == "agentMessage")
    return next(filter(None, said), "")


def render_outcome(task: Task, conversation_id: str, outcome: Outcome) -> str:
    """Return what the model reads of an outcome, shortened; the sub-agent's log has it in full."""
    how = outcome.status
    if outcome.reason is not None:
        why = _REASONS.get(outcome.reason, outcome.reason)
        how = f"not completed: {why}; a task with resume {conversation_id!r} goes on with it"
    head = f"[{task.agent}: {task.title} | conversation {conversation_id} | {how}]"
    rows = [head, shorten(outcome.text, MAX_RESULT_CHARS) or "(it said nothing)"]
    if outcome.result is not None:
        rows.append(f"result: {json.dumps(outcome.result, ensure_ascii=False)}")
    return "\n".join(rows)
