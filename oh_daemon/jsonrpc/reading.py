"""Reads fields of JSON that may be anything: what a client sends is checked where it is used."""

from __future__ import annotations

from typing import Any, cast

from oh_daemon.protocol.errors import InvalidParamsError

Json = dict[str, Any]


def field_in(value: Any, *names: str) -> Any:
    """Return what is at the end of these names, None if it is not there."""
    for name in names:
        value = cast("Json", value).get(name) if isinstance(value, dict) else None
    return value


def object_in(value: Any, *names: str) -> Json:
    """Return the object at the end of these names, an empty one if it is not there."""
    current = field_in(value, *names)
    return cast("Json", current) if isinstance(current, dict) else {}


def text_in(params: Any, name: str) -> str:
    """Return a field that must be a text. Raises `InvalidParamsError`."""
    value = field_in(params, name)
    if not isinstance(value, str) or not value:
        raise InvalidParamsError.at(name, "must be a text", "wrong_type")
    return value


def list_in(params: Any, name: str) -> list[Any]:
    """Return a list; an empty one if it is absent or null. Raises `InvalidParamsError`."""
    value = field_in(params, name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidParamsError.at(name, "must be a list", "wrong_type")
    return cast("list[Any]", value)
