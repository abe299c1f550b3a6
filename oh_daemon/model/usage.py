"""The usage of a model call, by the provider's figures; missing or absurd ones are unknown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from oh_daemon.contract.status import Cost, Usage
from oh_daemon.core.ports import Json

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
    known = {name: n for name, n in tokens.items() if n is not None}
    is_whole = all(name in known for name in _WHOLE)
    if not is_whole or not all(_is_count(n) for n in known.values()):
        return Usage(requests=1)
    reasoned = known.get("reasoning_tokens", 0)
    if reasoned and raw.get("total_tokens") == sum(map(known.__getitem__, _WHOLE)) + reasoned:
        # xAI counts them beside the output, whose price they have.
        known["output_tokens"] += reasoned
    usage = Usage(**known, requests=1)
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
