"""The packaged table of models, and the cost of calls, against litellm's own."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest

from oh_daemon.features.models.litellm_child import load_litellm
from oh_daemon.features.models.prices import cost_usd, price_table
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.status import Usage

pytestmark = pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class")

MODES = {"chat", "responses", "completion"}
USAGES = [
    Usage(input_tokens=1000, output_tokens=100),
    Usage(input_tokens=1000, output_tokens=50, cache_read_tokens=600),
    Usage(input_tokens=1000, output_tokens=50, cache_read_tokens=300, cache_write_tokens=200),
    Usage(input_tokens=1000, output_tokens=100, reasoning_tokens=60),
    Usage(input_tokens=128_000, output_tokens=7),
    Usage(input_tokens=200_000, output_tokens=7, cache_read_tokens=5, cache_write_tokens=5),
    Usage(input_tokens=250_000, output_tokens=3000, cache_read_tokens=200_000),
    Usage(input_tokens=600_000, output_tokens=3000, cache_write_tokens=1000),
    Usage(input_tokens=10, output_tokens=5, cache_read_tokens=50),
]
MOMENTS = [
    datetime(2026, 11, 25, 11, tzinfo=UTC),  # A Wednesday in DeepSeek's cheap hours,
    datetime(2026, 11, 25, 7, tzinfo=UTC),  # in its dear ones,
    datetime(2026, 11, 27, 23, tzinfo=UTC),  # and on its Saturday.
]
PRICED_BY_ANOTHER_ENTRY = {"deepseek-chat", "gemini-exp-1206", "perplexity/perplexity/sonar"}
"""litellm looks for the provider's name and this one first, and we take the entry that was found;
the prices of the two entries differ."""


@pytest.mark.full
def test_an_entry_is_what_litellm_has_after_its_import() -> None:
    table, litellm_table = price_table(), load_litellm().model_cost
    assert litellm_table.keys() <= set(table)
    keys = [
        *[*litellm_table][::10],
        "claude-haiku-5-5",
    ]  # The last one is not indented like the others.
    assert [table[key] for key in keys] == [litellm_table[key] for key in keys]
    assert "openai/no-such-model" not in table
    assert "search_context_cost_per_query" not in table  # It is a field of entries.


def test_a_call_costs_what_litellm_says() -> None:
    differing, compared_names = set[str](), set[str]()
    for key, entry in load_litellm().model_cost.items():
        prices = json.dumps([(k, v) for k, v in entry.items() if "pric" in k or "cost" in k])
        prices += entry["litellm_provider"]
        if (
            entry.get("mode") not in MODES
            or _counts_otherwise(key, entry)
            or prices in compared_names
        ):
            continue
        compared_names.add(prices)
        for now in MOMENTS if "off_peak_pricing" in entry else MOMENTS[:1]:
            for usage in USAGES:
                # Without a price litellm says that it costs nothing, and we that it is not known.
                own_cost, litellm_cost = (
                    cost_usd(entry, usage, now) or 0.0,
                    _litellm_cost(key, entry, usage, now),
                )
                if not math.isclose(own_cost, litellm_cost, rel_tol=1e-9, abs_tol=1e-15):
                    differing.add(key)
    assert differing == set()
    assert len(compared_names) > 1000


def _counts_otherwise(key: str, entry: Json) -> bool:
    # Perplexity's answers say what they cost; the price that litellm makes up otherwise has no
    # cached tokens. Some models of Bedrock have a price per second of video and none for input.
    no_price = "output_cost_per_token" in entry and "input_cost_per_token" not in entry
    return entry["litellm_provider"] == "perplexity" or no_price or key in PRICED_BY_ANOTHER_ENTRY


def _litellm_cost(key: str, entry: Json, usage: Usage, now: datetime) -> float:
    from litellm import Usage as TheirUsage  # noqa: PLC0415 - load_litellm imports it rightly.
    from litellm._internal_context import pinned_billing_time  # noqa: PLC0415

    reasoning = {"reasoning_tokens": usage.reasoning_tokens}
    litellm_usage = TheirUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
        completion_tokens_details=reasoning if usage.reasoning_tokens else None,
    )
    provider = entry["litellm_provider"]
    with pinned_billing_time(now):
        costs = load_litellm().cost_per_token(
            model=key,
            custom_llm_provider=provider,
            prompt_tokens=usage.input_tokens,
            completion_tokens=usage.output_tokens,
            cache_read_input_tokens=usage.cache_read_tokens,
            cache_creation_input_tokens=usage.cache_write_tokens,
            usage_object=litellm_usage,
        )
    return sum(costs)
