"""A time zone for tests during which no day may end."""

from datetime import UTC, datetime


def where_it_is_noon() -> str:
    """Return a value for TZ that makes it noon now, so that midnight is half a day away."""
    return f"NOON{datetime.now(UTC).hour - 12:+d}"
