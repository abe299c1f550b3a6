"""The limit of time counts from what the user last did."""

from typing import Any

import pytest
from core_world import StandingClock, new_conversation, text

from oh_daemon.features.budget.budget import Budget
from oh_daemon.protocol.settings import Settings


class Clock(StandingClock):
    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    "by_user",
    [
        {"event": {"type": "approval.resolved"}},
        {"event": {"type": "input.resolved"}},
        {"event": {"type": "turn.resumed"}},
        {"event": {"type": "item.completed", "item": {"kind": "userMessage"}}},
    ],
)
def test_what_the_user_does_begins_the_time_anew(by_user: Any):
    clock, conversation = Clock(), new_conversation()
    budget = Budget(lambda: Settings(max_minutes=1), lambda _usd: 0.0, clock)

    def rests() -> bool:
        return budget.rest_before_step(conversation.state) is not None

    other_record: Any = {"event": {"type": "item.started"}}
    conversation.journal.listeners.append(budget)
    clock.seconds = 100
    conversation.send(text("go"))
    clock.seconds = 159
    assert not rests()
    clock.seconds = 160
    assert rests()
    budget.on_record(conversation.journal, b"", other_record)
    assert rests()
    budget.on_record(conversation.journal, b"", by_user)
    assert not rests()
