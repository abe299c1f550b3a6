"""The models that a provider's key alone chooses, checked against the table of litellm."""

from __future__ import annotations

import pytest

from oh_daemon.features.models.capabilities import find_entry
from oh_daemon.features.models.models import PROVIDERS
from oh_daemon.features.models.prices import price_table
from oh_daemon.protocol.llm import LLMSettings

ALIASES = {"openrouter/~anthropic/claude-sonnet-latest"}
"""Names under which a provider itself always serves its newest model; the table has none of it."""


@pytest.mark.parametrize("name", sorted({*PROVIDERS.values()} - ALIASES))
def test_a_model_chosen_for_the_user_calls_functions_and_has_no_end_date(name: str) -> None:
    table = price_table()
    key = find_entry(LLMSettings(model=name), table)
    assert key is not None
    assert table[key]["supports_function_calling"]
    assert "deprecation_date" not in table[key]
