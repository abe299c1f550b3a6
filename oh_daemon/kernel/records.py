"""What counts of a log's records: after a rollback, in a branch, in a log begun elsewhere. Pure.

Invariant: the records of a branch fold to a conversation at rest in which every tool call has its
result, wherever the cut is and whatever is running in the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any

from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.recovery import ended_turn
from oh_daemon.kernel.state import ENDED, State
from oh_daemon.protocol import plain
from oh_daemon.protocol.branches import ForkParams
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.events import ConversationUpdated
from oh_daemon.protocol.forms import plain_form
from oh_daemon.protocol.log_version import LOG_VERSION


def standing_records(records: Iterable[plain.Record]) -> list[plain.Record]:
    """Return the records from the beginning on that no later `conversation.rolledBack` has undone.

    Records before it are what is left of a log whose first event is damaged.
    """
    stack: list[plain.Record] = []
    records = dropwhile(lambda record: record["event"]["type"] != "conversation.created", records)
    for record in records:
        if record["event"]["type"] == "conversation.rolledBack":
            while stack and stack[-1]["seq"] > record["event"]["toSeq"]:
                stack.pop()
        stack.append(record)
    return stack


def items_and_turns(records: Iterable[plain.Record]) -> Iterator[plain.Item | plain.Turn]:
    """Yield the ended items and turns in order, without items of attempts that were retried."""
    for record in standing_records(records):
        event = record["event"]
        if event["type"] == "turn.completed":
            yield event["turn"]
        elif event["type"] == "item.completed" and event["item"].get("reason") != "retried":
            yield event["item"]


def begin_of_message(records: Iterable[plain.Record], item_id: str) -> int:
    """Return the seq of the last event before a message, or before the turn that it started.

    Raises `LookupError` for an unknown message.
    """
    begin = 0
    for record in records:
        kind = record["event"]["type"]
        if kind == "turn.started":
            begin = record["seq"] - 1
        elif kind.startswith("item.") and record.get("itemId") == item_id:
            return begin or record["seq"] - 1
        elif kind.startswith("item."):
            begin = 0
    raise LookupError(item_id)


def begin_of_item(records: Iterable[plain.Record], item_id: str) -> int:
    """Return the seq of the last event before an item."""
    return next(r["seq"] - 1 for r in records if r.get("itemId") == item_id)


FOREIGN = (
    "it came with the folder and was not begun by you on this machine, so nothing that was allowed"
    " in it counts, and it starts with the mode, approval, model and prompt that you have now"
)


def without_authority(record: plain.Record, folders: Sequence[str]) -> plain.Record:
    """Return the record of a foreign log as it counts here, where these are the open folders.

    A request for approval is void as well: it may show something else than what would be run.
    """
    counting: Any = _counting(record["event"], folders)
    return {**record, "event": counting}


def _counting(event: plain.Event, folders: Sequence[str]) -> Mapping[str, object]:
    match event["type"]:
        case "approval.requested" | "approval.resolved" | "action.decided":
            return {"type": "void"}
        case "turn.started":
            return {key: value for key, value in event.items() if key != "options"}
        case "agent.changed":
            return {**event, "agent": _bare(event["agent"])}
        case "conversation.created":
            own = {key: value for key, value in event.items() if key != "resultSchema"}
            return {**own, "folders": folders, "agent": _bare(event["agent"])}
        case "conversation.updated":
            return {key: value for key, value in event.items() if key != "folders"}
        case _:
            return event


def _bare(agent: plain.AgentInfo) -> plain.AgentInfo:
    return {**agent, "systemPrompt": "", "contextFiles": [], "skills": {}}


_BRANCH_EVENTS = {"turn.started", "turn.completed", "changes.updated", "changes.reviewed"}
"""Copied besides items; queued messages, approvals, requests and costs stay behind."""


def fork_records(
    records: Sequence[plain.Record],
    params: ForkParams,
    now: str,
    options: Mapping[str, str] | None = None,
) -> list[plain.Record]:
    """Return the records up to and including an item (without one, all) as the start of a new log.

    `options` replace some of those that hold there.

    Items that have not ended are left out. Raises `InvalidParamsError` for an unknown item.
    """
    conversation_id, at_item_id = params.conversation_id, params.at_item_id
    valid = standing_records(records)
    state = fold(conversation_id, records)
    if at_item_id is None:
        items = state.items
    elif at_item_id in state.positions:
        items = state.items[: state.positions[at_item_id] + 1]
    else:
        raise InvalidParamsError.at(
            "atItemId", f"names no item of this conversation: {at_item_id!r}", "unknown"
        )
    ended_ids = {item["id"] for item in items if item["status"] in ENDED}
    end = _end(valid, at_item_id, ended_ids)
    copies = [record for record in valid[1:] if _is_copied(record, ended_ids, end)]
    origin: plain.ForkOrigin = {"id": conversation_id, "seq": end}
    state.options |= options or {}
    events = [_creation(valid[0]["event"], state, origin, now), *copies]
    update_event = ConversationUpdated(title=params.title or f"{state.title} (fork)")
    events += [*_closing(conversation_id, events, now), _record(plain_form(update_event), now)]
    return _renumber(events)


def _end(records: Sequence[plain.Record], at_item_id: str | None, ended_ids: set[str]) -> int:
    """Return the seq of the last event that can belong to the branch.

    Events directly after the item belong to the branch too, up to the next turn or item.
    """
    if at_item_id is None:
        return records[-1]["seq"]
    own = [place for place, record in enumerate(records) if _item_of(record) == at_item_id]
    # An item that has not ended is left out itself.
    start = own[-1] if at_item_id in ended_ids else own[0]
    later = range(start, len(records))
    end = next((place for place in later if _goes_on(records[place], ended_ids)), len(records))
    return records[end - 1]["seq"]


def _item_of(record: plain.Record) -> str | None:
    return record.get("itemId") if record["event"]["type"].startswith("item.") else None


def _goes_on(record: plain.Record, ended_ids: set[str]) -> bool:
    """Return whether another turn begins here, or an item that is left out."""
    item_id = _item_of(record)
    is_left_out = item_id is not None and item_id not in ended_ids
    return is_left_out or record["event"]["type"] == "turn.started"


def _is_copied(record: plain.Record, ended_ids: set[str], end: int) -> bool:
    kind = record["event"]["type"]
    if kind.startswith("item.") or kind == "checkpoint.created":
        return record.get("itemId") in ended_ids
    return kind in _BRANCH_EVENTS and record["seq"] <= end


def _creation(first: plain.Event, state: State, origin: plain.ForkOrigin, now: str) -> plain.Record:
    """Return the first record: agent and options as they are now; grants are not passed on."""
    if first["type"] != "conversation.created":
        raise ValueError(first["type"])
    event: plain.ConversationCreated = {
        **first,
        "title": state.title,
        "folders": [*state.folders],
        "agent": state.agent,
        "options": state.options,
        "metadata": state.metadata,
        "forkedFrom": origin,
    }
    # The branch of a sub-agent has no parent, so that lists show it.
    event.pop("parentId", None)
    return _record(event, now)


def _closing(conversation_id: str, records: Iterable[plain.Record], now: str) -> list[plain.Record]:
    """Return the end of a turn that the cut goes through, so that the turn can be resumed."""
    state = fold(conversation_id, _renumber(records))
    if state.turn is None:
        return []
    turn = ended_turn(state, now, "interrupted", "cancelled")
    return [{**_record(plain_form(turn), now), "turnId": state.turn.id}]


def _record(event: plain.Event, now: str) -> plain.Record:
    """Return a record that gets its number last."""
    return {"v": LOG_VERSION, "seq": 0, "ts": now, "event": event}


def _renumber(records: Iterable[plain.Record]) -> list[plain.Record]:
    """Renumber the records and drop causes, so that no request to the branch counts as repeated."""
    new_records: list[plain.Record] = [
        {**record, "seq": seq} for seq, record in enumerate(records, 1)
    ]
    for record in new_records:
        record.pop("cause", None)
    return new_records
