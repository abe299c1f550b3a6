"""Events that close what was under way when a run ended early. Pure: the caller appends them.

The same rule holds for interrupts, closing and crashes: every open action gets exactly one
observation, an action that may have run is never run again, and a request that waits for the user
outlives the daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import TypeAdapter

from oh_daemon.contract import events as e
from oh_daemon.contract import plain
from oh_daemon.contract.base import Contract
from oh_daemon.contract.inputs import InputAction
from oh_daemon.contract.items import ConversationState, Item, PauseReason, StopReason, Usage
from oh_daemon.core.landing import is_own, without_landing
from oh_daemon.core.ports import Json
from oh_daemon.core.state import State, is_tool_item

ITEM: TypeAdapter[Item] = TypeAdapter(Item)
AT_REST = frozenset({"idle", "finished", "error", "closed", "paused"})
Found = Mapping[str, Json]
"""Fields known by now of items that were cut short, by item id; they replace the items' own."""
_NOTHING: Found = MappingProxyType({})

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
    found: Found = _NOTHING,
) -> list[Contract]:
    """End the open items; `keep_waiting` leaves those open that wait for the user."""
    closing: list[Contract] = []
    asking = {question["itemId"] for question in state.questions.values()}
    for item_id in state.open_items:
        item = state.item(item_id)
        landing = state.landings.get(item_id)
        waits = item["status"] == "awaitingApproval" or item_id in asking or landing is not None
        if waits and keep_waiting:
            continue
        if landing is not None:
            closing.append(_without_landing(item, now, landing))
            continue
        was_begun = item["status"] == "running" or not is_tool_item(item)
        why = reason if was_begun else "notStarted"
        closing.append(_ended(item, now, why, known=found.get(item_id, {})))
    return closing


def withdrawn(
    state: State, by: Literal["interrupted", "changed"] = "interrupted", item_id: str | None = None
) -> list[Contract]:
    """Resolve all requests (or those of one item) to which nobody will give an answer any more."""
    rejected = e.Decision(effect="reject")
    return [
        e.ApprovalResolved(approval_id=asked["id"], decision=rejected, by=by)
        if asked["id"] in state.approvals
        else e.InputResolved(input_id=asked["id"], action="cancel", by=by)
        for asked in state.awaited.values()
        if item_id in {None, asked["itemId"]}
    ]





def without_hosts(state: State) -> list[Contract]:
    """Withdraw the questions about hosts: the programs that wait for them end, or go on without."""
    rejected = e.Decision(effect="reject")
    return [
        e.ApprovalResolved(approval_id=approval["id"], decision=rejected, by="interrupted")
        for approval in state.approvals.values()
        if approval["subject"]["kind"] == "host" and _is_of_program(state, approval)
    ]


def _is_of_program(state: State, approval: plain.Approval) -> bool:
    """Return whether a program asked, that runs; an action that has not begun asks for services."""
    return state.item(approval["itemId"])["status"] != "awaitingApproval"
