"""What a model call costs, by the model's entry in litellm's table; pure.

It counts what `litellm.cost_per_token` counts: tokens read from and written to a cache, the prices
of long prompts, and hours in which a provider takes less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time

from oh_daemon.contract.status import Usage
from oh_daemon.core.ports import Json

_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_READ, _WRITE = "cache_read_input_token_cost", "cache_creation_input_token_cost"
_REASONING = "output_cost_per_reasoning_token"
_RATES = (_INPUT, _OUTPUT, _READ, _WRITE, _REASONING)
_ABOVE = re.compile(rf"({'|'.join(_RATES)})_above_(\d+)(k?)_tokens")
_FROM_THE_LIMIT_ON = frozenset({"xai"})
"""Providers that take the higher price from the limit on, others only above it."""
_CACHED_SHARE = {"fireworks_ai": 0.5}
"""The share of the input price that cached input costs, where the table does not say it."""


def cost_usd(entry: Json, usage: Usage, now: datetime) -> float | None:
    """Return the cost in US dollars; None when the entry has no price per token."""
    rates = _rates(entry, usage.input_tokens, now.astimezone(UTC))
    if _INPUT not in rates:
        return None
    per_input, per_output = rates[_INPUT], rates.get(_OUTPUT, 0.0)
    per_read = rates.get(_READ, per_input * _CACHED_SHARE.get(entry["litellm_provider"], 1))
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    reasoned = min(usage.reasoning_tokens, usage.output_tokens)
    return (
        max(usage.input_tokens - read - written, 0) * per_input
        + read * per_read
        + written * rates.get(_WRITE, per_input)
        + (usage.output_tokens - reasoned) * per_output
        + reasoned * rates.get(_REASONING, per_output)
    )


def _rates(entry: Json, prompt: int, now: datetime) -> Mapping[str, float]:
    """Return the prices per token of a prompt of this length; the later ones replace the others."""
    ranges = sorted(entry.get("tiered_pricing") or (), key=lambda tier: tier["range"])
    tier = next((tier for tier in ranges if prompt <= tier["range"][1]), (ranges or [None])[-1])
    reduced: Json = entry.get("off_peak_pricing") or {}
    return {
        **_named(tier or entry),
        **dict(_above(entry, prompt)),
        **(_named(reduced) if _is_off_peak(reduced, now) else {}),
    }


def _named(prices: Json) -> Mapping[str, float]:
    return {name: prices[name] for name in _RATES if prices.get(name) is not None}


def _above(entry: Json, prompt: int) -> Iterator[tuple[str, float]]:
    """Yield the prices for prompts above a limit that this one exceeds, the highest limit last."""
    found = [
        (_limit(match), match[1], entry[match[0]])
        for match in map(_ABOVE.fullmatch, entry)
        if match
    ]
    inclusive = entry["litellm_provider"] in _FROM_THE_LIMIT_ON
    for limit, name, price in sorted(found):
        if prompt > limit or (inclusive and prompt == limit):
            yield name, price


def _limit(match: re.Match[str]) -> int:
    return int(match[2]) * (1000 if match[3] else 1)


def _is_off_peak(reduced: Json, now: datetime) -> bool:
    """Return whether one of the windows is open; some are for certain days of the week only."""
    for window in reduced.get("windows") or ():
        hours: str | list[str] = window["hours_utc"]
        if now.isoweekday() in window.get("weekdays", range(1, 8)):
            each = [hours] if isinstance(hours, str) else hours
            if any(_is_within(one, now.time()) for one in each):
                return True
    return False


def _is_within(hours: str, clock: time) -> bool:
    """Return whether `clock` is in hours such as "22:00-06:00"; the same twice is a whole day."""
    begin, end = map(time.fromisoformat, hours.split("-"))
    return begin <= clock < end if begin < end else clock >= begin or clock < end
