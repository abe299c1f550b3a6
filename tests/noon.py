"""A time zone for tests that must not see the end of a day."""

from datetime import UTC, datetime


def where_it_is_noon() -> str:
    """A value for TZ: there the next midnight is half a day away."""
    return f"NOON{datetime.now(UTC).hour - 12:+d}"
