"""Events that close what was under way when a run ended early. Pure: the caller appends them.

The same rule holds for interrupts, closing and crashes: every open action gets exactly one
observation, an action that may have run is never run again, and a request that waits for the user
outlives the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from oh_daemon.common.partial_text import PartialText
from oh_daemon.kernel.pending_changes import is_own, unapplied_text
from oh_daemon.kernel.state import State, is_tool_item
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision, InputAction
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.forms import CutFields, ItemFields, item_with, model_of
from oh_daemon.protocol.items import StopReason
from oh_daemon.protocol.status import ConversationState, PauseReason, Usage

AT_REST = frozenset({"idle", "finished", "error", "closed", "paused"})
Outcomes = Mapping[str, ItemFields]
"""Fields known by now of items that were cut short, by item id; they replace the items' own."""
_NOTHING: Outcomes = MappingProxyType(dict[str, ItemFields]())

# Read by the model, and by people below the call.
_EXPLANATIONS: dict[str, str] = {
    "interrupted": "Interrupted by the user. It may have had effects; check before you rely on it.",
    "outcomeUnknown": "The daemon stopped while this ran; its outcome is unknown. Check before you "
    "repeat it.",
    "superseded": "Not run: the user sent a new message instead of allowing it.",
    "notStarted": "Not run: the turn ended before it began.",
    "declined": "Skipped by the user, without an answer.",
    "dismissed": "Closed by the user, without an answer.",
    "answeredByMessage": "Answered by the message that follows.",
}


def closing_events(
    state: State,
    now: str,
    reason: Literal["interrupted", "outcomeUnknown"],
    *,
    keep_waiting: bool = False,
    outcomes: Outcomes = _NOTHING,
) -> list[Contract]:
    """End the open items; `keep_waiting` leaves those open that wait for the user."""
    closing: list[Contract] = []
    asking = {question["itemId"] for question in state.questions.values()}
    for item_id in state.open_items:
        item = state.item(item_id)
        planned_changes = state.planned_changes.get(item_id)
        waits = (
            item["status"] == "awaitingApproval" or item_id in asking or planned_changes is not None
        )
        if waits and keep_waiting:
            continue
        if planned_changes is not None:
            closing.append(_unapplied_events(item, now, planned_changes))
            continue
        was_begun = item["status"] == "running" or not is_tool_item(item)
        why = reason if was_begun else "notStarted"
        closing.append(_end_event(item, now, why, fields=outcomes.get(item_id)))
    return closing


def withdrawal_events(
    state: State, by: Literal["interrupted", "changed"] = "interrupted", item_id: str | None = None
) -> list[Contract]:
    """Resolve all requests (or those of one item) to which nobody will give an answer any more."""
    decision = Decision(effect="reject")
    return [
        e.ApprovalResolved(approval_id=question["id"], decision=decision, by=by)
        if question["id"] in state.approvals
        else e.InputResolved(input_id=question["id"], action="cancel", by=by)
        for question in state.pending.values()
        if question["id"] in state.awaited_requests or state.is_of_program(question)
        if item_id in {None, question["itemId"]}
    ]


def withdrawn_prompts(state: State) -> list[Contract]:
    """Resolve all offers, since what was before them is rolled back."""
    decision = Decision(effect="reject")
    prompts = state.pending.keys() - state.awaited_requests.keys()
    return [e.ApprovalResolved(approval_id=o, decision=decision, by="changed") for o in prompts]


def without_hosts(state: State) -> list[Contract]:
    """Withdraw the questions of programs about hosts: they end, or go on without an answer."""
    decision = Decision(effect="reject")
    return [
        e.ApprovalResolved(approval_id=approval_id, decision=decision, by="interrupted")
        for approval_id, approval in state.approvals.items()
        if state.is_of_program(approval)
    ]


def answering_events(
    state: State, question: plain.InputRequest, now: str, action: InputAction, content: str | None
) -> list[Contract]:
    """Return the user's answer with its observation, so that a logged answer is never lost."""
    event = e.InputResolved(input_id=question["id"], action=action, content=content, by="user")
    item = state.item(question["itemId"])
    match action:
        case "accept":
            return [event, _end_event(item, now, None, status="completed", text=content)]
        case "decline":
            return [event, _end_event(item, now, "declined", status="rejected")]
        case "cancel":
            return [event, _end_event(item, now, "dismissed")]


def superseding_events(state: State, now: str) -> list[Contract]:
    """Let a new message answer what was asked and replace the actions that were not allowed yet."""
    rejection = Decision(effect="reject")
    events: list[Contract] = [
        e.ApprovalResolved(approval_id=approval_id, decision=rejection, by="superseded")
        for approval_id in state.approvals.keys() & state.awaited_requests.keys()
    ]
    asking = {question["itemId"]: input_id for input_id, question in state.questions.items()}
    for item in state.open_tool_items():
        decisions = state.decisions.get(item["id"], {}).values()
        is_allowed = any(decision.effect == "allow" for decision in decisions)
        if item["id"] in asking:
            event = e.InputResolved(input_id=asking[item["id"]], action="accept", by="message")
            end_events = _end_event(item, now, "answeredByMessage", status="completed")
            events.extend((event, end_events))
        elif (
            planned_changes := state.planned_changes.get(item["id"])
        ) is not None and not is_allowed:
            events.append(_unapplied_events(item, now, planned_changes))
        elif item["status"] != "running" and not is_allowed:
            events.append(_end_event(item, now, "superseded", status="rejected"))
    return events


def ended_turn(
    state: State,
    now: str,
    status: Literal["completed", "interrupted", "failed"],
    stop_reason: StopReason,
    **outcome: Any,
) -> e.TurnCompleted:
    """Return the end of the open turn; `outcome` is its `error`, or `final_text` and `result`."""
    turn = state.open_turn
    ended_record = e.Turn(
        id=turn.id,
        status=status,
        stop_reason=stop_reason,
        started_at=turn.started_at,
        ended_at=now,
        n_steps=turn.n_steps,
        usage=model_of(Usage, turn.usage) if turn.usage else None,
        **outcome,
    )
    return e.TurnCompleted(turn=ended_record)


def stopping_events(state: State, now: str, *, is_closing: bool) -> list[Contract]:
    """Return what stops a cancelled turn: closing, `pause` with `now`, or an interrupt."""
    pauses = state.pause_requested == "now" and state.status != "interrupting"
    closing = closing_events(state, now, "interrupted", keep_waiting=is_closing or pauses)
    if is_closing or pauses:
        closing += without_hosts(state)
    if is_closing:
        event = status_event(state, "paused", "daemonRestarted")
        return [*closing, _interruption_event(state, now), event]
    if pauses:
        return [*closing, e.TurnPaused(reason="user"), status_event(state, "paused", "user")]
    return [
        *withdrawal_events(state),
        *closing,
        _interruption_event(state, now),
        status_event(state, "idle"),
    ]


def drop_events(state: State, now: str) -> list[Contract]:
    """Return what ends the actions that outlived their turn: they waited when the daemon ended."""
    return [*withdrawal_events(state), *closing_events(state, now, "interrupted")]


def cut_texts(
    open_items: Iterable[plain.Item],
    texts: Mapping[str, PartialText],
    output_fields: Callable[[PartialText], CutFields],
) -> dict[str, CutFields]:
    """Return what items that were cut off get of the texts that were left, by item id."""
    return {
        item["id"]: output_fields(partial) if is_tool_item(item) else {"text": partial.text}
        for item in open_items
        if (partial := texts.get(item["id"])) is not None
    }


def restart_events(state: State, now: str, outcomes: Outcomes = _NOTHING) -> list[Contract]:
    """Return what opening a log appends after the daemon died in the middle of a turn."""
    leftover_events = without_hosts(state)
    if state.status in AT_REST and not state.open_items:
        return leftover_events
    events = closing_events(state, now, "outcomeUnknown", keep_waiting=True, outcomes=outcomes)
    events += leftover_events
    if state.turn is not None and not state.turn.is_paused:
        events.append(_interruption_event(state, now))
    if state.status not in AT_REST:
        events.append(status_event(state, "paused", "daemonRestarted"))
    return events


def _interruption_event(state: State, now: str) -> e.TurnCompleted:
    return ended_turn(state, now, "interrupted", "cancelled")


def status_event(
    state: State, to: ConversationState, reason: PauseReason | None = None
) -> Contract:
    return e.StatusChanged(from_=state.status, to=to, reason=reason)


def _unapplied_events(
    item: plain.Item, now: str, planned_changes: plain.ChangesPlanned
) -> Contract:
    """End a command whose changes nobody will take any more."""
    result = unapplied_text(planned_changes, "The user did something else instead of taking them.")
    fields: ItemFields = {**result.item_fields, "content": result.content}
    status = "rejected" if is_own(item) else "completed"
    return _end_event(item, now, None, status=status, fields=fields)


def _end_event(
    item: plain.Item,
    now: str,
    reason: str | None,
    status: plain.ItemStatus = "cancelled",
    *,
    text: str | None = None,
    fields: ItemFields | None = None,
) -> e.ItemCompleted:
    fields_set: ItemFields = {**(fields or {}), "status": status, "reason": reason, "endedAt": now}
    if is_tool_item(item):
        message = text if reason is None else _EXPLANATIONS[reason]
        content = [{"type": "text", "text": message}] if message is not None else []
        fields_set["content"] = [*content, *fields_set.get("content", item.get("content", ()))]
    return e.ItemCompleted(item=item_with(item, fields_set))
