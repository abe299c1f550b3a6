"""Closing what was under way when a run ended early: pure, the caller appends the events.

One rule for interrupts, closing and crashes: every open action gets exactly one observation, an
action that may have run is never run again, and a pending approval outlives the daemon.
"""

from __future__ import annotations

from typing import Literal

from pydantic import TypeAdapter

from oh_daemon.contract import events as e
from oh_daemon.contract.items import Contract, Item
from oh_daemon.core.ports import Json
from oh_daemon.core.state import TOOL_KINDS, State

ITEM: TypeAdapter[Item] = TypeAdapter(Item)
EndReason = Literal["interrupted", "outcomeUnknown", "skipped"]

_EXPLANATIONS: dict[str, str] = {
    "interrupted": "Interrupted by the user. It may have had effects; check before you rely on it.",
    "outcomeUnknown": "The daemon stopped while this ran; its outcome is unknown. Check before you "
    "repeat it.",
    "superseded": "Not run: the user sent a new message instead of allowing it.",
    "notStarted": "Not run: the turn ended before it began.",
}


def closing_events(
    state: State, now: str, reason: EndReason, *, keep_approvals: bool = False
) -> list[Contract]:
    """End the open items, those that wait for an approval only unless they are kept."""
    closing: list[Contract] = []
    for item_id in state.open_items:
        item = state.item(item_id)
        waits = item["status"] == "awaitingApproval"
        if waits and keep_approvals:
            continue
        why = reason if item["status"] == "running" or item["kind"] not in TOOL_KINDS else None
        closing.append(_ended(item, now, why or "notStarted"))
    return closing


def cancelled_approvals(
    state: State, by: Literal["interrupted", "superseded"] = "interrupted"
) -> list[Contract]:
    """Resolutions for all that still waits for an answer nobody will give any more."""
    rejected = e.Decision(effect="reject")
    return [
        e.ApprovalResolved(approval_id=approval_id, decision=rejected, by=by)
        for approval_id in state.approvals
    ]


def superseding_events(state: State, now: str) -> list[Contract]:
    """A new message takes the place of every action that has not been allowed yet."""
    events = cancelled_approvals(state, "superseded")
    for item in state.open_tool_items():
        decided = state.decisions.get(item["id"], {}).values()
        allowed = any(decision["effect"] == "allow" for decision in decided)
        if item["status"] != "running" and not allowed:
            events.append(_ended(item, now, "superseded", status="rejected"))
    return events


def interrupted_turn(state: State, now: str) -> e.TurnCompleted:
    """The open turn, ended early. Call only while a turn is open."""
    turn = state.turn or {}
    return e.TurnCompleted(
        turn=e.Turn(
            id=turn["id"],
            status="interrupted",
            stop_reason="cancelled",
            started_at=turn["startedAt"],
            ended_at=now,
            n_steps=turn["nSteps"],
            usage=turn["usage"] or None,
        )
    )


def restart_events(state: State, now: str) -> list[Contract]:
    """What opening a log appends when the daemon died in the middle of a turn."""
    if state.status in {"idle", "finished", "error", "closed", "paused"} and not state.open_items:
        return []
    events = closing_events(state, now, "outcomeUnknown", keep_approvals=True)
    if state.turn is not None and not state.turn.get("paused"):
        events.append(interrupted_turn(state, now))
    if state.status in {"running", "waiting", "pausing", "interrupting"}:
        change = {"from": state.status, "to": "paused", "reason": "daemonRestarted"}
        events.append(e.StatusChanged.model_validate(change))
    return events


def _ended(item: Json, now: str, reason: str, status: str = "cancelled") -> e.ItemCompleted:
    ended = {**item, "status": status, "reason": reason, "endedAt": now}
    if item["kind"] in TOOL_KINDS:
        ended["content"] = [{"type": "text", "text": _EXPLANATIONS[reason]}]
    return e.ItemCompleted(item=ITEM.validate_python(ended))
