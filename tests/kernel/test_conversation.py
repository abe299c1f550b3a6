"""What clients' requests do to a conversation that has no agent at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from core_world import NOW, Heard, new_conversation, records, text, types

from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.delivery import MAX_QUEUE, plan_delivery
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.recovery import ended_turn, stopping_events
from oh_daemon.kernel.state import OpenTurn, State
from oh_daemon.kernel.turns import may_resume, turn_end
from oh_daemon.protocol import events as e
from oh_daemon.protocol.approvals import Approval, Decision, ToolSubject
from oh_daemon.protocol.errors import (
    ApprovalNotFoundError,
    ApprovalStaleError,
    IdempotencyConflictError,
    InvalidStateError,
    OverloadedError,
    StorageError,
    TurnMismatchError,
)
from oh_daemon.protocol.status import ConversationState


def running_conversation(**changes: Any) -> Conversation:
    conversation = new_conversation(**changes)
    conversation.send(text("go"))
    return conversation


def ask(conversation: Conversation, approval_id: str = "a1") -> None:
    """Append an open action that waits for the user's approval."""
    call = {"id": "call_1", "name": "touch", "arguments": "{}", "batch": "b1"}
    fields: Json = {"kind": "toolCall", "id": "i1", "status": "pending", "tool": "touch"}
    conversation.journal.append(e.ItemStarted.model_validate({"item": {**fields, "call": call}}))
    approval = Approval(
        id=approval_id,
        digest="d1",
        conversation_id="c1",
        turn_id="t1",
        item_id="i1",
        title="touch",
        subject=ToolSubject(tool="touch", args={}),
        risk="medium",
        options=(),
        created_at=NOW,
    )
    conversation.journal.append(
        e.ItemUpdated(status="awaitingApproval"),
        e.ApprovalRequested(approval=approval),
        conversation.turns.status_event("waiting"),
        item_id="i1",
    )


OPEN = OpenTurn("t1", "message", NOW, {})


@pytest.mark.parametrize(
    ("status", "turn", "delivery", "run", "disposition"),
    [
        ("idle", None, "auto", True, "started"),
        ("finished", None, "queue", True, "started"),
        ("error", None, "interrupt", True, "started"),
        ("idle", None, "auto", False, "queued"),
        ("idle", None, "steer", True, "started"),
        ("running", OPEN, "auto", True, "steered"),
        ("waiting", OPEN, "steer", True, "steered"),
        ("pausing", OPEN, "queue", True, "queued"),
        ("running", OPEN, "interrupt", True, "interruptedAndStarted"),
        ("interrupting", OPEN, "auto", True, "interruptedAndStarted"),
        ("interrupting", OPEN, "queue", True, "queued"),
        ("paused", OPEN, "auto", True, "steered"),
        ("paused", OPEN, "queue", True, "queued"),
        ("paused", None, "auto", True, "started"),
    ],
)
def test_what_becomes_of_a_message(
    status: Any, turn: OpenTurn | None, delivery: Any, run: bool, disposition: str
):
    assert plan_delivery(State("c1", status=status, turn=turn), delivery, run=run) == disposition


def message_text(message: Any) -> str:
    return message["content"][0]["text"]


class Curious(Heard):
    """Has another thread look at something as soon as it hears of a kind of event."""

    def __init__(self, kind: str, on_look: Callable[[], object]) -> None:
        super().__init__()
        self._kind, self._on_look = kind, on_look
        self.has_looked = threading.Event()

    def on_record(self, _journal: object, _line: bytes, record: Any) -> None:
        if record["event"]["type"] == self._kind:
            threading.Thread(target=self._run).start()
            # The other thread has to wait until this listener has returned.
            assert not self.has_looked.wait(0.05)

    def _run(self) -> None:
        self._on_look()
        self.has_looked.set()


def test_who_hears_of_the_end_of_a_turn_finds_the_conversation_at_rest():
    names: list[str] = []
    conversation = running_conversation()
    curious = Curious("turn.completed", lambda: names.append(conversation.journal.status))
    conversation.journal.listeners.append(curious)
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=False))
    assert curious.has_looked.wait(90)
    assert names == ["idle"]


def test_the_queue_has_a_limit():
    conversation = new_conversation()
    for _ in range(MAX_QUEUE):
        conversation.send(text("later"), run=False)
    with pytest.raises(OverloadedError) as error_info:
        conversation.send(text("one more"), run=False)
    assert error_info.value.retry_after_ms == 1000


def test_a_first_message_starts_a_turn_and_gives_the_title():
    conversation = new_conversation()
    result = conversation.send(text("\n Fix the bug \nplease"), client_message_id="m1")
    state = conversation.state
    assert result == {
        "messageId": state.items[0].get("messageId"),
        "disposition": "started",
        "turnId": state.turn_id,
    }
    assert (state.title, state.status, state.message_count) == ("Fix the bug", "running", 1)
    assert types(conversation)[1:] == [
        "conversation.updated",
        "turn.started",
        "item.completed",
        "status.changed",
    ]


def test_a_message_that_must_not_run_is_held_until_the_next_turn():
    conversation = new_conversation()
    result = conversation.send(text("for later"), run=False)
    assert (result["disposition"], result["queuePosition"]) == ("queued", 0)
    assert conversation.state.queue[0].get("held") is True
    assert not conversation.delivery.has_steering()
    conversation.send(text("go"))
    conversation.delivery.take_in_steering()
    assert list(map(message_text, conversation.state.items)) == ["go", "for later"]
    assert conversation.state.queue == []


def test_an_expected_turn_that_is_not_the_open_one_is_refused():
    conversation = running_conversation()
    with pytest.raises(TurnMismatchError, match="'other'"):
        conversation.require_turn("other")
    assert conversation.state.queue == []


def test_a_message_supersedes_what_waits_for_an_answer():
    conversation = running_conversation()
    ask(conversation)
    conversation.send(text("do this instead"))
    [item] = [item for item in conversation.state.items if item["kind"] == "toolCall"]
    assert (item["status"], item.get("reason")) == ("rejected", "superseded")
    assert conversation.state.resolutions["a1"]["by"] == "superseded"
    assert conversation.state.approvals == {}


def test_an_interrupting_message_goes_to_the_front_and_cancels():
    conversation = running_conversation()
    conversation.send(text("later"), delivery="queue")
    result = conversation.send(text("now"), delivery="interrupt")
    assert result["disposition"] == "interruptedAndStarted"
    assert conversation.cancel.is_cancelled
    assert conversation.state.status == "interrupting"
    assert list(map(message_text, conversation.state.queue)) == ["now", "later"]
    conversation.send(text("and then"))
    messages = list(map(message_text, conversation.state.queue))
    assert messages == ["now", "and then", "later"]
    conversation.interrupt()
    assert types(conversation).count("interrupt.requested") == 1


def test_a_closed_conversation_takes_no_message():
    conversation = new_conversation()
    conversation.journal.is_closing = True
    with pytest.raises(InvalidStateError, match="open it again"):
        conversation.send(text("go"))


def test_a_pause_waits_for_the_end_of_the_step():
    conversation = running_conversation()
    assert conversation.pause("step")["status"] == "pausing"
    assert not conversation.cancel.is_cancelled
    assert conversation.state.pause_requested == "step"


def test_a_pause_at_once_cancels_the_step():
    conversation = running_conversation()
    conversation.pause("now")
    assert conversation.cancel.is_cancelled
    stopping = stopping_events(conversation.state, NOW, is_closing=False)
    conversation.journal.append(*stopping)
    assert conversation.turns.is_paused


def test_a_pause_while_waiting_holds_the_turn_and_resume_waits_on():
    conversation = running_conversation()
    ask(conversation)
    assert conversation.pause("step")["status"] == "paused"
    assert conversation.pause("step")["status"] == "paused"
    turn_id = conversation.state.turn_id
    assert conversation.resume() == {"turnId": turn_id}
    assert conversation.state.status == "waiting"


def test_a_message_to_a_paused_turn_resumes_it():
    conversation = running_conversation()
    conversation.turns.pause("user")
    assert conversation.send(text("go on"))["disposition"] == "steered"
    assert (conversation.state.status, conversation.turns.is_paused) == ("running", False)
    assert conversation.delivery.has_steering()


def test_nothing_can_be_paused_when_nothing_runs():
    with pytest.raises(InvalidStateError, match="nothing to pause"):
        new_conversation().pause("step")


@pytest.mark.parametrize(
    ("status", "last", "may"),
    [
        ("paused", None, True),
        ("idle", "interrupted", True),
        ("error", "failed", True),
        ("idle", "completed", False),
        ("idle", "maxTokens", True),
        ("idle", "noAnswer", True),
        ("idle", "toolErrors", False),
        ("running", "interrupted", False),
        ("idle", None, False),
    ],
)
def test_what_can_be_resumed(status: Any, last: str | None, may: bool):
    is_reason = last in {"maxTokens", "noAnswer", "toolErrors"}
    turn_fields: Any = (
        {"status": "completed", "stopReason": last} if is_reason else {"status": last}
    )
    turn_fields = turn_fields if last else None
    assert may_resume(State("c1", status=status, last_turn=turn_fields)) is may


def test_resume_after_an_interrupt_starts_a_turn_without_a_message():
    conversation = running_conversation()
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=False))
    result = conversation.resume()
    assert conversation.state.turn_id == result["turnId"]
    assert records(conversation)[-2]["event"] == {"type": "turn.started", "cause": "resume"}
    with pytest.raises(InvalidStateError, match="send a message instead"):
        conversation.resume()


def test_an_interrupt_answers_when_the_turn_has_ended():
    conversation = running_conversation()
    conversation.send(text("later"), delivery="queue")
    turn_id = conversation.state.turn_id
    interrupt_future = conversation.interrupt(clear_queue=True)
    assert not interrupt_future.done()
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=False))
    assert interrupt_future.result(0) == {"turnId": turn_id, "status": "interrupted"}
    assert conversation.state.queue == []
    assert conversation.interrupt().result(0) == {"status": "idle"}


def test_the_first_answer_to_an_approval_wins():
    conversation = running_conversation()
    ask(conversation)
    allow, reject = Decision(effect="allow", scope="turn"), Decision(effect="reject")
    with pytest.raises(ApprovalNotFoundError):
        conversation.decisions.respond("unknown", "d1", allow)
    with pytest.raises(ApprovalStaleError):
        conversation.decisions.respond("a1", "d2", allow)
    assert conversation.decisions.respond("a1", "d1", allow) == {"resolved": True}
    answer = {"by": "user", "decision": {"effect": "allow", "scope": "turn"}}
    assert conversation.decisions.respond("a1", "d1", reject) == {
        "resolved": False,
        "alreadyResolved": answer,
    }
    assert len(conversation.state.turn_grants) == 1


def test_a_message_can_be_taken_from_the_queue_once():
    conversation = running_conversation()
    receipt = conversation.send(text("later"), delivery="queue")
    turn_future = turn_end(conversation.journal, receipt["messageId"], None)
    conversation.delivery.remove_queued(receipt["messageId"])
    with pytest.raises(InvalidStateError, match="taken from the queue"):
        turn_future.result(0)
    with pytest.raises(InvalidStateError, match="no queued message"):
        conversation.delivery.remove_queued(receipt["messageId"])


def test_whoever_waits_for_a_queued_message_hears_of_its_own_turn():
    conversation = running_conversation()
    receipt = conversation.send(text("later"), delivery="queue")
    turn_future = turn_end(conversation.journal, receipt["messageId"], None)
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=False))
    assert not turn_future.done()
    conversation.resume()
    conversation.delivery.take_in_steering()
    message = conversation.state.queue[0]
    conversation.journal.append(*stopping_events(conversation.state, NOW, is_closing=False))
    conversation.delivery.start_queued(e.QueuedMessage.model_validate(message))
    conversation.turns.pause("network")
    turn_id = conversation.state.turn_id
    turn = {"id": turn_id, "status": "paused", "startedAt": NOW, "nSteps": 0}
    assert turn_future.result(0) == turn


def test_whoever_waits_for_a_message_that_came_too_late_hears_of_the_turn_that_saw_it():
    conversation = running_conversation()
    receipt = conversation.send(text("one more"))
    turn_future = turn_end(conversation.journal, receipt["messageId"], receipt["turnId"])
    assert receipt["disposition"] == "steered"
    complete(conversation, "idle")
    assert not turn_future.done()
    conversation.delivery.start_queued(e.QueuedMessage.model_validate(conversation.state.queue[0]))
    complete(conversation, "idle")
    assert turn_future.result(0)["id"] != receipt["turnId"]


def test_whoever_waits_for_a_message_hears_of_an_end_after_which_it_begins_no_turn():
    for end in (
        lambda c: c.journal.append(*stopping_events(c.state, NOW, is_closing=False)),
        lambda c: complete(c, "paused"),
    ):
        conversation = running_conversation()
        receipt = conversation.send(text("one more"))
        turn_future = turn_end(conversation.journal, receipt["messageId"], receipt["turnId"])
        end(conversation)
        assert turn_future.result(0)["id"] == receipt["turnId"]


def complete(conversation: Conversation, status: ConversationState) -> None:
    end = ended_turn(conversation.state, NOW, "completed", "endTurn")
    conversation.journal.append(end, conversation.turns.status_event(status))


def test_a_repeated_request_gets_its_first_result():
    conversation = new_conversation()

    def cause(result: Json) -> e.Cause:
        return e.Cause(method="m", client_request_id="r1", body_hash="h1", result=result)

    assert conversation.earlier_result("m", "r1", "h1") is None
    result = conversation.send(text("go"), cause=cause)
    assert conversation.earlier_result("m", "r1", "h1") == {**result, "duplicate": True}
    assert conversation.earlier_result("other", "r1", "h1") is None
    with pytest.raises(IdempotencyConflictError, match="'r1'"):
        conversation.earlier_result("m", "r1", "h2")


@pytest.mark.parametrize("act", ["pause", "resume", "steer"])
def test_control_requests_keep_their_cause(act: str):
    conversation = running_conversation()

    def cause(result: Json) -> e.Cause:
        return e.Cause(method="m", client_request_id="r1", body_hash="h1", result=result)

    if act == "pause":
        result = conversation.pause("step", cause)
    elif act == "resume":
        conversation.turns.pause("user")
        result = conversation.resume(cause)
    else:
        result = conversation.send(text("more"), cause=cause)
    assert conversation.earlier_result("m", "r1", "h1") == {**result, "duplicate": True}


def test_what_waits_for_the_user_still_waits_after_a_full_disk():
    conversation = running_conversation()
    ask(conversation)
    conversation.journal.halt(StorageError("the disk is full"))
    conversation.resume()
    assert list(conversation.state.open_items) == ["i1"]
    assert conversation.decisions.respond("a1", "d1", Decision(effect="allow")) == {
        "resolved": True
    }


def test_after_a_full_disk_resume_goes_on_with_the_turn():
    conversation = running_conversation()
    receipt = conversation.send(text("later"), delivery="queue")
    turn_future = [
        turn_end(conversation.journal, "none", conversation.state.turn_id),
        turn_end(conversation.journal, receipt["messageId"], None),
    ]
    conversation.journal.halt(StorageError("the disk is full"))
    for each in turn_future:
        with pytest.raises(StorageError, match="the disk is full"):
            each.result(0)
    assert conversation.resume() == {"turnId": conversation.state.turn_id}
    assert conversation.journal.storage_error is None
    assert types(conversation)[-5:] == [
        "notice", "turn.paused", "status.changed", "turn.resumed", "status.changed"
    ]  # fmt: skip
    assert (conversation.state.status, conversation.turns.is_paused) == ("running", False)
