"""Decoded JSON of any form, read as the form that is expected: `as_object("x")` is empty; pure."""

from __future__ import annotations

from typing import Any, cast

Json = dict[str, Any]


def as_object(value: Any) -> Json:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a JSON list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def objects_in(value: Any) -> list[Json]:
    """Return the objects in a list that are not empty; none if the value is no list."""
    return list(filter(None, map(as_object, as_list(value))))
