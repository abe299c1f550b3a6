"""What a model call costs: its usage, litellm's packaged table of models, and the prices in that.

The table is read without litellm, one entry at a time: litellm's import takes seconds, and all of
the table takes 35 ms and 5 MiB.
"""

from __future__ import annotations

import json
import math
import mmap
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, time
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.status import Cost, Usage

_FILE = "model_prices_and_context_window_backup.json"
RULES = "fallback_generalizations"
"""The key of what holds for all models of a family, those that the table does not have yet too."""
_MAX_ENTRY_BYTES = 1 << 16


class PackagedTable(Mapping[str, Json]):
    """The entries by their keys; iterating reads all of the file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __getitem__(self, key: str) -> Json:
        entry = _read_entry(self._file, key)
        if entry is None:
            raise KeyError(key)
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(json.loads(self._file.read_bytes()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache
def _read_entry(file: Path, key: str) -> Json | None:
    """Find the name with an object behind it: not all entries are indented alike."""
    head = re.compile(re.escape(json.dumps(key)).encode() + rb"\s*:\s*(?=\{)")
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
        match = head.search(text)
        if match is None:
            return None
        rest = text[match.end() : match.end() + _MAX_ENTRY_BYTES]
        entry: Json = json.JSONDecoder().raw_decode(rest.decode("utf-8", "replace"))[0]
    # Otherwise it is a part of an entry, or one that is no model.
    return entry if "litellm_provider" in entry or key == RULES else None


@cache
def price_table() -> Mapping[str, Json]:
    """Return the table that comes with the installed litellm."""
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    return PackagedTable(Path(spec.origin).with_name(_FILE))


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
    read, cache_write = usage.cache_read_tokens, usage.cache_write_tokens
    n_reasoning = min(usage.reasoning_tokens, usage.output_tokens)
    return (
        max(usage.input_tokens - read - cache_write, 0) * per_input
        + read * per_read
        + cache_write * rates.get(_WRITE, per_input)
        + (usage.output_tokens - n_reasoning) * per_output
        + n_reasoning * rates.get(_REASONING, per_output)
    )


def _rates(entry: Json, prompt: int, now: datetime) -> Mapping[str, float]:
    """Return the prices per token of a prompt of this length; the later ones replace the others."""
    ranges = sorted(entry.get("tiered_pricing") or (), key=lambda tier: tier["range"])
    tier = next((tier for tier in ranges if prompt <= tier["range"][1]), (ranges or [None])[-1])
    off_peak: Json = entry.get("off_peak_pricing") or {}
    return {
        **_named_prices(tier or entry),
        **dict(_above(entry, prompt)),
        **(_named_prices(off_peak) if _is_off_peak(off_peak, now) else {}),
    }


def _named_prices(prices: Json) -> Mapping[str, float]:
    return {name: prices[name] for name in _RATES if prices.get(name) is not None}


def _above(entry: Json, prompt: int) -> Iterator[tuple[str, float]]:
    """Yield the prices for prompts above a limit that this one exceeds, the highest limit last."""
    tiers = [
        (_limit(match), match[1], entry[match[0]])
        for match in map(_ABOVE.fullmatch, entry)
        if match
    ]
    inclusive = entry["litellm_provider"] in _FROM_THE_LIMIT_ON
    for limit, name, price in sorted(tiers):
        if prompt > limit or (inclusive and prompt == limit):
            yield name, price


def _limit(match: re.Match[str]) -> int:
    return int(match[2]) * (1000 if match[3] else 1)


def _is_off_peak(off_peak: Json, now: datetime) -> bool:
    """Return whether one of the windows is open; some are for certain days of the week only."""
    for window in off_peak.get("windows") or ():
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


MAX_TOKENS = 100_000_000
MAX_COST_USD = 10_000.0

_WHOLE = ("input_tokens", "output_tokens")

Price = Callable[[Usage], float | None]


def read_usage(raw: Json | None, price: Price) -> Usage:
    """Return one request's usage; `price` is called when the provider does not give the cost."""
    raw = raw or {}
    prompt: Json = raw.get("prompt_tokens_details") or {}
    completion: Json = raw.get("completion_tokens_details") or {}
    tokens = {
        "input_tokens": raw.get("prompt_tokens"),
        "output_tokens": raw.get("completion_tokens"),
        "cache_read_tokens": prompt.get("cached_tokens") or raw.get("cache_read_input_tokens"),
        "cache_write_tokens": raw.get("cache_creation_input_tokens"),
        "reasoning_tokens": completion.get("reasoning_tokens"),
    }
    counts = {name: n for name, n in tokens.items() if n is not None}
    is_whole = all(name in counts for name in _WHOLE)
    if not is_whole or not all(_is_count(n) for n in counts.values()):
        return Usage(requests=1)
    n_reasoning = counts.get("reasoning_tokens", 0)
    if (
        n_reasoning
        and raw.get("total_tokens") == sum(map(counts.__getitem__, _WHOLE)) + n_reasoning
    ):
        # xAI counts them beside the output, whose price they have.
        counts["output_tokens"] += n_reasoning
    usage = Usage(**counts, requests=1)
    amount = raw.get("cost")
    amount = amount if _is_amount(amount) else price(usage)
    cost = Cost(amount=amount) if amount is not None and _is_amount(amount) else None
    return usage.model_copy(update={"cost": cost})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


def _is_amount(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) and 0 <= value <= MAX_COST_USD
