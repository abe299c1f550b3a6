"""The fold: what single events change. Whole logs are in test_golden_logs."""

from __future__ import annotations

from typing import Any

from oh_daemon.kernel.folding import CHANGES, add_usage, apply, fold
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events


def record(kind: str, seq: int = 1, **event: Any) -> Any:
    return {"v": 2, "seq": seq, "ts": f"t{seq}", "turnId": "t", "event": {"type": kind, **event}}


def test_each_function_that_changes_the_state_gets_the_event_that_it_is_for():
    for kind, change in CHANGES.items():
        _state, event, *_ = change.__annotations__.values()
        model = getattr(events, event.removeprefix("plain."))
        assert model.model_fields["type"].default == kind


def test_an_event_of_a_later_version_only_moves_on():
    state = fold("c1", [record("hologram.projected", seq=7)])
    assert state == State("c1", seq=7, updated_at="t7")


def test_what_happens_without_a_turn_changes_no_turn():
    state = State("c1", created_at="t0")
    apply(state, record("turn.paused", reason="user"))
    apply(state, record("turn.resumed"))
    apply(state, record("usage.updated", usage={"inputTokens": 3}))
    assert (state.turn, state.usage) == (None, {"inputTokens": 3})


def test_usage_is_summed_and_the_cost_is_unknown_once_a_part_is():
    one: Any = {"inputTokens": 1, "outputTokens": 2, "cost": {"amount": 0.5, "currency": "USD"}}
    two: Any = {"inputTokens": 3, "requests": 1, "cost": {"amount": 0.25, "currency": "USD"}}
    assert add_usage(None, one) == one
    both = add_usage(one, two)
    assert both == {
        "inputTokens": 4,
        "outputTokens": 2,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
        "reasoningTokens": 0,
        "requests": 1,
        "cost": {"amount": 0.75, "currency": "USD"},
    }
    del two["cost"]
    assert "cost" not in add_usage(both, two)


def test_an_answer_to_an_approval_that_is_gone_is_remembered_and_decides_nothing():
    state = State("c1", created_at="t0")
    allow = {"effect": "allow", "scope": "conversation"}
    apply(state, record("approval.resolved", approvalId="a", decision=allow, by="user"))
    assert list(state.resolutions) == ["a"]
    assert (state.grants, state.decisions) == (set(), {})


def test_changed_arguments_and_options_are_taken_over():
    state = State("c1", created_at="t0", options={"mode": "ask"})
    call = {"id": "x", "name": "n", "arguments": "{}", "batch": "b"}
    item: Any = {"id": "i", "kind": "toolCall", "status": "pending", "args": {"a": 1}}
    apply(state, record("item.started", item={**item, "call": call}))
    changed_record: Any = {**record("item.updated", status="running", args={"a": 2}), "itemId": "i"}
    apply(state, changed_record)
    apply(state, record("options.changed", values={"mode": "plan"}))
    assert (state.item("i").get("args"), state.options) == ({"a": 2}, {"mode": "plan"})
    assert [each["id"] for each in state.open_tool_items()] == ["i"]
