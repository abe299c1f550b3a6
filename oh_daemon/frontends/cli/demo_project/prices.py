"""Prices of a small shop, in cents."""


def total(cents: int) -> int:
    """What an order costs after the discount of RULES.md."""
    if cents < 10_000:
        return cents
    return cents * 90 // 100
