"""Closing what was under way when a run ended early: pure, the caller appends the events.

One rule for interrupts, closing and crashes: every open action gets exactly one observation, an
action that may have run is never run again, and a pending approval outlives the daemon.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import TypeAdapter

from oh_daemon.contract import events as e
from oh_daemon.contract.items import Contract, ConversationState, Item, PauseReason, StopReason
from oh_daemon.core.ports import Json
from oh_daemon.core.state import TOOL_KINDS, State

ITEM: TypeAdapter[Item] = TypeAdapter(Item)
AT_REST = frozenset({"idle", "finished", "error", "closed", "paused"})
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
    state: State,
    by: Literal["interrupted", "superseded", "changed"] = "interrupted",
    item_id: str | None = None,
) -> list[Contract]:
    """Resolutions for all (or one item's) that waits for an answer nobody will give any more."""
    rejected = e.Decision(effect="reject")
    return [
        e.ApprovalResolved(approval_id=approval_id, decision=rejected, by=by)
        for approval_id, approval in state.approvals.items()
        if item_id in {None, approval["itemId"]}
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


def ended_turn(
    state: State,
    now: str,
    status: Literal["completed", "interrupted", "failed"],
    stop_reason: StopReason,
    **outcome: Any,
) -> e.TurnCompleted:
    """The end of the open turn; `outcome` holds its `error` or `final_text`."""
    turn = state.turn or {}
    ended = e.Turn(
        id=turn["id"],
        status=status,
        stop_reason=stop_reason,
        started_at=turn["startedAt"],
        ended_at=now,
        n_steps=turn["nSteps"],
        usage=turn["usage"] or None,
        **outcome,
    )
    return e.TurnCompleted(turn=ended)


def stopping_events(state: State, now: str, *, is_closing: bool) -> list[Contract]:
    """What ends a turn that was cancelled: by closing, by `pause` at once, or by an interrupt."""
    closing = closing_events(state, now, "interrupted", keep_approvals=is_closing)
    if is_closing:
        return [*closing, _interrupted(state, now), _status(state, "paused", "daemonRestarted")]
    if state.pause_requested == "now" and state.status != "interrupting":
        return [*closing, e.TurnPaused(reason="user"), _status(state, "paused", "user")]
    approvals = cancelled_approvals(state)
    return [*approvals, *closing, _interrupted(state, now), _status(state, "idle")]


def restart_events(state: State, now: str) -> list[Contract]:
    """What opening a log appends when the daemon died in the middle of a turn."""
    if state.status in AT_REST and not state.open_items:
        return []
    events = closing_events(state, now, "outcomeUnknown", keep_approvals=True)
    if state.turn is not None and not state.turn.get("paused"):
        events.append(_interrupted(state, now))
    if state.status not in AT_REST:
        events.append(_status(state, "paused", "daemonRestarted"))
    return events


def _interrupted(state: State, now: str) -> e.TurnCompleted:
    return ended_turn(state, now, "interrupted", "cancelled")


def _status(state: State, to: ConversationState, reason: PauseReason | None = None) -> Contract:
    return e.StatusChanged(from_=cast("ConversationState", state.status), to=to, reason=reason)


def _ended(item: Json, now: str, reason: str, status: str = "cancelled") -> e.ItemCompleted:
    ended = {**item, "status": status, "reason": reason, "endedAt": now}
    if item["kind"] in TOOL_KINDS:
        ended["content"] = [{"type": "text", "text": _EXPLANATIONS[reason]}]
    return e.ItemCompleted(item=ITEM.validate_python(ended))
