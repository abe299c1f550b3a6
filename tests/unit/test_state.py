"""The fold: what single events change. Whole logs are in test_golden_logs."""

from __future__ import annotations

from typing import Any

from oh_daemon.core.ports import Json
from oh_daemon.core.state import State, add_usage, apply, fold


def record(kind: str, seq: int = 1, **event: Any) -> Json:
    return {"v": 1, "seq": seq, "ts": f"t{seq}", "turnId": "t", "event": {"type": kind, **event}}


def test_an_event_of_a_later_version_only_moves_on():
    state = fold("c1", [record("hologram.projected", seq=7)])
    assert state == State("c1", seq=7, updated_at="t7")


def test_what_happens_without_a_turn_changes_no_turn():
    state = State("c1")
    apply(state, record("turn.paused", reason="user"))
    apply(state, record("turn.resumed"))
    apply(state, record("usage.updated", usage={"inputTokens": 3}))
    assert (state.turn, state.usage) == (None, {"inputTokens": 3})


def test_usage_is_summed_and_the_cost_is_unknown_once_a_part_is():
    one: Json = {"inputTokens": 1, "outputTokens": 2, "cost": {"amount": 0.5, "currency": "USD"}}
    two: Json = {"inputTokens": 3, "requests": 1, "cost": {"amount": 0.25, "currency": "USD"}}
    assert add_usage({}, one) == one
    both = add_usage(one, two)
    assert both == {
        "inputTokens": 4,
        "outputTokens": 2,
        "requests": 1,
        "cost": {"amount": 0.75, "currency": "USD"},
    }
    assert "cost" not in add_usage(both, {"inputTokens": 1})


def test_an_answer_to_an_approval_that_is_gone_is_remembered_and_decides_nothing():
    state = State("c1")
    allow = {"effect": "allow", "scope": "conversation"}
    apply(state, record("approval.resolved", approvalId="a", decision=allow, by="user"))
    assert list(state.resolutions) == ["a"]
    assert (state.grants, state.decisions) == (set(), {})


def test_changed_arguments_and_options_are_taken_over():
    state = State("c1", options={"mode": "ask"})
    call = {"id": "x", "name": "n", "arguments": "{}", "batch": "b"}
    item: Json = {"id": "i", "kind": "toolCall", "status": "pending", "args": {"a": 1}}
    apply(state, record("item.started", item={**item, "call": call}))
    changed: Json = {**record("item.updated", status="running", args={"a": 2}), "itemId": "i"}
    apply(state, changed)
    apply(state, record("options.changed", values={"mode": "plan"}))
    assert (state.item("i")["args"], state.options) == ({"a": 2}, {"mode": "plan"})
    assert [each["id"] for each in state.open_tool_items()] == ["i"]
