"""A rollback is an event in the log: the state and the model forget, but the records stay."""

from __future__ import annotations

from typing import Any

from oh_daemon.kernel.context import ModelContext
from oh_daemon.kernel.folding import apply, fold
from oh_daemon.kernel.records import begin_of_message, standing_records
from oh_daemon.kernel.state import State


def message(item_id: str, text: str) -> Any:
    content = [{"type": "text", "text": text}]
    item = {"id": item_id, "kind": "userMessage", "status": "completed", "content": content}
    return {"type": "item.completed", "item": item}


def records_of(*events: Any) -> list[Any]:
    numbered_events = enumerate(events, 1)
    return [
        {"seq": n, "ts": "t", "turnId": "t1", "itemId": e.get("item", {}).get("id"), "event": e}
        for n, e in numbered_events
    ]


CREATED = {
    "type": "conversation.created",
    "title": "",
    "folders": [],
    "agent": {"model": "m", "label": "m", "systemPrompt": "", "tools": []},
    "options": {},
    "maxSteps": 9,
}
TURN = {"type": "turn.started", "cause": "message"}
END = {"type": "turn.completed", "turn": {"id": "t1", "status": "failed"}}
BACK = {"type": "conversation.rolledBack", "toSeq": 4, "toItemId": "b", "files": "keep"}
RECORDS = records_of(CREATED, TURN, message("a", "one"), END, TURN, message("b", "two"), END, BACK)


def test_what_was_rolled_back_is_gone_and_the_numbers_go_on():
    state = fold("c", RECORDS)
    assert [item["id"] for item in state.items] == ["a"]
    assert (state.message_count, state.turn, state.last_turn, state.seq) == (1, None, None, 8)
    assert [record["seq"] for record in standing_records(RECORDS)] == [1, 2, 3, 4, 8]


def test_the_way_back_goes_before_the_turn_that_a_message_started():
    assert begin_of_message(RECORDS, "b") == 4
    steered_records = records_of(TURN, message("a", "one"), message("b", "two"))
    assert begin_of_message(steered_records, "b") == 2


def test_a_view_that_grew_begins_anew_after_a_rollback_also_when_as_much_was_added():
    view, state = ModelContext("system"), State("c")
    from_log = iter([*RECORDS, *records_of(*[{}] * 8, TURN, message("c", "three"))[8:]])
    for record in from_log:
        apply(state, record)
        view.messages(state.items)
    contents = [each["content"] for each in view.messages(state.items)]
    assert contents == ["system", "one", "three"]


def test_a_view_that_was_not_asked_in_between_begins_anew_too():
    view = ModelContext("system")
    view.messages(fold("c", RECORDS[:7]).items)
    later = records_of(*[{}] * 8, TURN, message("c", "three"))[8:]
    contents = [each["content"] for each in view.messages(fold("c", [*RECORDS, *later]).items)]
    assert contents == ["system", "one", "three"]
