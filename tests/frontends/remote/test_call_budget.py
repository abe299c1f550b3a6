"""A daemon elsewhere spends the user's key within the user's limits, whatever it asks for."""

from __future__ import annotations

import pytest

from oh_daemon.frontends.remote.call_budget import CallBudget
from oh_daemon.protocol.errors import ModelError
from oh_daemon.protocol.settings import Settings
from oh_daemon.protocol.status import Cost, Usage


class Today:
    """The sum that the user spent today."""

    def __init__(self, cost_usd: float) -> None:
        self.cost_usd = cost_usd

    def spend(self, cost_usd: float) -> float:
        self.cost_usd += cost_usd
        return self.cost_usd


@pytest.mark.parametrize(
    ("limits", "conversations", "n_allowed"),
    [
        ({"maxCostUsdPerConversation": 0.5}, [], 2),
        ({"maxCostUsdPerConversation": 0.5}, ["a"], 2),
        ({"maxCostUsdPerConversation": 0.5}, ["a", "b", "a"], 4),
        ({"maxCostUsdPerDay": 1.0}, ["a", "b"], 3),
        ({}, [], 9),
    ],
)
def test_calls_are_refused_once_a_limit_is_reached(
    limits: dict[str, float], conversations: list[str], n_allowed: int
) -> None:
    today = Today(0.25)
    settings = Settings.model_validate(limits)
    budget = CallBudget(lambda: settings, today.spend)
    for each in conversations:
        budget.add_conversation(each)
    for _ in range(n_allowed):
        budget.check()
        budget.add(Usage(cost=Cost(amount=0.25)))
    if limits:
        with pytest.raises(ModelError, match="maxCostUsdPer") as raised:
            budget.check()
        assert not raised.value.retryable
    assert today.cost_usd == 0.25 + n_allowed * 0.25
