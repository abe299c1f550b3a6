"""The events that end the open parts of a conversation; they follow from its state alone."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import NOW, new_conversation, text

from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.recovery import restart_events, stopping_events, superseding_events
from oh_daemon.protocol import events as e
from oh_daemon.protocol.base import Contract


def item(item_id: str, kind: str = "toolCall", **fields: Any) -> Any:
    common_fields: Json = {"kind": kind, "id": item_id, "status": "pending"}
    if kind == "toolCall":
        call = {"id": f"call_{item_id}", "name": "look", "arguments": "{}", "batch": "b"}
        common_fields |= {"tool": "look", "call": call}
    else:
        common_fields |= {"messageId": item_id, "text": "Hel"}
    return e.ItemStarted.model_validate({"item": {**common_fields, **fields}}).item


def with_open_items() -> Conversation:
    """Begin a turn with a streaming text, a running action, a waiting one and one not yet begun."""
    conversation = new_conversation()
    conversation.send(text("go"))
    for each in (
        item("said", "agentMessage", status="running"),
        item("runs"),
        item("waits"),
        item("next"),
    ):
        conversation.journal.append(e.ItemStarted(item=each))
    conversation.journal.append(e.ItemUpdated(status="running"), item_id="runs")
    conversation.journal.append(e.ItemUpdated(status="awaitingApproval"), item_id="waits")
    approval: Json = {"id": "a", "digest": "d", "conversationId": "c1", "turnId": "t"}
    approval |= {"itemId": "waits", "title": "look", "risk": "medium", "options": ()}
    approval |= {"subject": {"kind": "tool", "tool": "look", "args": {}}, "createdAt": NOW}
    conversation.journal.append(e.ApprovalRequested.model_validate({"approval": approval}))
    return conversation


def with_a_question() -> Conversation:
    """Begin a turn that waits for an answer; the action after the question has not begun."""
    conversation = new_conversation()
    conversation.send(text("go"))
    for each in (item("asks"), item("next")):
        conversation.journal.append(e.ItemStarted(item=each))
    question: Json = {"id": "q", "conversationId": "c1", "turnId": "t", "itemId": "asks"}
    question |= {"kind": "text", "prompt": "Which?", "createdAt": NOW}
    conversation.journal.append(e.InputRequested.model_validate({"input": question}))
    return conversation


def outcomes(conversation: Conversation) -> dict[str, str | None]:
    items = conversation.state.items
    return {each["id"]: each.get("reason") for each in items if each["kind"] != "userMessage"}


def kinds(events: list[Contract]) -> list[str]:
    return [event.model_dump()["type"] for event in events]


def test_an_interrupt_ends_everything_and_the_turn():
    conversation = with_open_items()
    conversation.journal.append(
        e.InterruptRequested(), conversation.turns.status_event("interrupting")
    )
    events = stopping_events(conversation.state, NOW, is_closing=False)
    conversation.journal.append(*events)
    assert outcomes(conversation) == {
        "said": "interrupted",
        "runs": "interrupted",
        "waits": "notStarted",
        "next": "notStarted",
    }
    state = conversation.state
    assert (state.status, state.turn, state.approvals) == ("idle", None, {})
    assert (state.last_turn or {}).get("stopReason") == "cancelled"
    assert state.resolutions["a"]["by"] == "interrupted"
    assert not state.open_items


def test_closing_keeps_what_waits_for_an_answer():
    conversation = with_open_items()
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=True))
    state = conversation.state
    assert list(state.open_items) == ["waits"]
    assert list(state.approvals) == ["a"]
    assert (state.status, state.status_reason) == ("paused", "daemonRestarted")


def test_a_pause_at_once_keeps_the_turn_open():
    conversation = with_open_items()
    conversation.pause("now")
    turn = conversation.state.turn_id
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=False))
    assert conversation.state.turn_id == turn
    assert conversation.turns.is_paused
    assert list(conversation.state.open_items) == ["waits"]
    assert list(conversation.state.approvals) == ["a"]


def test_a_crash_leaves_an_unknown_outcome_and_the_approval():
    conversation = with_open_items()
    events = restart_events(conversation.state, NOW)
    assert kinds(events) == ["item.completed"] * 3 + ["turn.completed", "status.changed"]
    conversation.journal.append(*events)
    assert outcomes(conversation) == {
        "said": "outcomeUnknown",
        "runs": "outcomeUnknown",
        "waits": None,
        "next": "notStarted",
    }
    assert list(conversation.state.approvals) == ["a"]
    runs: Any = conversation.state.item("runs")
    assert "outcome is unknown" in runs["content"][0]["text"]


@pytest.mark.parametrize("is_closing", [True, False])
def test_a_question_waits_through_closing_and_a_crash_but_not_an_interrupt(is_closing: bool):
    conversation = with_a_question()
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=is_closing))
    assert list(conversation.state.questions) == (["q"] if is_closing else [])
    assert outcomes(conversation)["asks"] == (None if is_closing else "notStarted")
    crashed_conversation = with_a_question()
    crashed_conversation.journal.append(*restart_events(crashed_conversation.state, NOW))
    assert list(crashed_conversation.state.questions) == ["q"]
    assert outcomes(crashed_conversation) == {"asks": None, "next": "notStarted"}


def test_an_answer_is_one_append_with_its_observation():
    conversation = with_a_question()
    assert conversation.decisions.answer("q", "accept", "this") == {"resolved": True}
    asking_item: Any = conversation.state.item("asks")
    assert (asking_item["status"], asking_item["content"]) == (
        "completed",
        [{"type": "text", "text": "this"}],
    )
    assert (conversation.state.pending, list(conversation.state.open_items)) == ({}, ["next"])
    assert conversation.decisions.answer("q", "decline")["alreadyResolved"]["action"] == "accept"


def test_a_message_answers_the_question_and_replaces_the_rest():
    conversation = with_a_question()
    conversation.send(text("this one"))
    assert outcomes(conversation) == {"asks": "answeredByMessage", "next": "superseded"}
    assert conversation.state.resolutions["q"]["by"] == "message"


def test_a_crash_of_a_paused_turn_leaves_it_paused():
    conversation = new_conversation()
    conversation.send(text("go"))
    conversation.turns.pause("user")
    assert restart_events(conversation.state, NOW) == []
    conversation.journal.append(e.ItemStarted(item=item("left")))
    assert kinds(restart_events(conversation.state, NOW)) == ["item.completed"]
    assert conversation.state.turn is not None


def test_a_conversation_at_rest_needs_nothing():
    assert restart_events(new_conversation().state, NOW) == []


@pytest.mark.parametrize("effect", ["allow", "reject"])
def test_an_action_that_was_allowed_already_is_not_superseded(effect: Any):
    conversation = with_open_items()
    event = e.ActionDecided(effect=effect, rule="r", risk="low", digest="d2")
    conversation.journal.append(event, item_id="next")
    conversation.journal.append(*superseding_events(conversation.state, NOW))
    outcome_list = outcomes(conversation)
    assert outcome_list["waits"] == "superseded"
    assert outcome_list["next"] == (None if effect == "allow" else "superseded")
    assert outcome_list["runs"] is None
    assert conversation.state.item("waits")["status"] == "rejected"
