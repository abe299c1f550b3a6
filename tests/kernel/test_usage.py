"""The tokens and the cost of model calls, by model and by day."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from oh_daemon.features.export.event_lines import EventPrinter, render_cached
from oh_daemon.kernel.usage import Bill


def took(ts: str, model: str, tokens: int, cost: float | None = 1.0, **more: Any) -> Any:
    usage: Any = {"inputTokens": tokens, "requests": 1}
    if cost is not None:
        usage["cost"] = {"amount": cost, "currency": "USD"}
    return {"ts": ts, "event": {"type": "usage.updated", "usage": usage, "model": model, **more}}


def check(records: list[Any], since: str = "") -> list[tuple[Any, ...]]:
    """Return the total, then the models, then the days, as (name, tokens, cost)."""
    bill = Bill(since)
    for record in records:
        bill.add(record)
    rendered_bill = bill.render()

    def row(name: str, usage: Any) -> tuple[Any, ...]:
        return (name, usage.get("inputTokens", 0), usage.get("cost", {}).get("amount"))

    models = [row(each["model"], each["usage"]) for each in rendered_bill["byModel"]]
    days = [row(each["day"], each["usage"]) for each in rendered_bill["byDay"]]
    return [row("", rendered_bill["usage"]), *models, *days]


CALLS = [
    took("2026-11-20T23:00:00.000Z", "a", 10),
    took("2026-11-21T08:00:00.000Z", "b", 40, purpose="title"),
    took("2026-11-21T09:00:00.000Z", "a", 20),
    {"ts": "2026-11-21T09:00:00.000Z", "event": {"type": "notice"}},
]


def test_calls_are_summed_by_model_and_day() -> None:
    days = [("2026-11-21", 60, 2.0), ("2026-11-20", 10, 1.0)]
    assert check(CALLS) == [("", 70, 3.0), ("b", 40, 1.0), ("a", 30, 2.0), *days]
    assert check([]) == [("", 0, None)]


def test_only_what_came_since_then_counts() -> None:
    assert check(CALLS, "2026-11-21")[0] == ("", 60, 2.0)
    assert check(CALLS, "2026-11-21T08:30:00Z")[0] == ("", 20, 1.0)


def test_a_call_that_a_branch_has_too_counts_once() -> None:
    assert check([*CALLS, *CALLS[:2]])[0] == ("", 70, 3.0)


def test_a_sum_with_an_unknown_price_has_none() -> None:
    free = took("2026-11-21T10:00:00.000Z", "c", 5, cost=None)
    assert check([*CALLS, free])[0] == ("", 75, None)


def test_the_end_of_a_turn_says_how_much_the_provider_had_in_its_cache() -> None:
    usage = {"inputTokens": 1000, "cacheReadTokens": 957, "outputTokens": 5}
    turn = {"nSteps": 2, "status": "completed", "stopReason": "endTurn", "usage": usage}
    console = Console(record=True, width=200)
    record: Any = {"event": {"type": "turn.completed", "turn": turn}}
    EventPrinter(console).print(record)
    assert "1,000 tokens in (96% cached), 5 out" in console.export_text()
    assert render_cached({"inputTokens": 1000}) == ""
