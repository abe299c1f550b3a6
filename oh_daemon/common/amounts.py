"""Amounts of money as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def render_cost(usage: Mapping[str, Any], n_digits: int = 2) -> str:
    """Return the cost in a usage of the protocol, `{"cost": {"amount": 1.25}}`, or `"unknown"`."""
    cost: Mapping[str, Any] | None = usage.get("cost")
    return render_usd(cost["amount"] if cost else None, n_digits)


def render_usd(amount: float | None, n_digits: int = 2, *, is_whole: bool = True) -> str:
    """Return an amount in US dollars, such as `"$1.25"`; None is unknown.

    Only an amount of exactly 0 is `"$0"`. With `is_whole` false, it is the known part of a sum.
    """
    if amount is None or (amount == 0 and not is_whole):
        return "unknown"
    least = 10**-n_digits
    text = f"${amount:.{n_digits}f}" if amount >= least else f"<${least:.{n_digits}f}"
    return ("" if is_whole else "at least ") + (text if amount else "$0")
