"""Reads the head of a Markdown file, YAML between two `---` lines, with every value as text."""

from __future__ import annotations

import re
from typing import Any, cast

_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)


def split_front_matter(text: str) -> tuple[str | None, str]:
    """Return the head (None without one) and what comes after it."""
    head = _HEAD.match(text)
    return (None, text) if head is None else (head[1], text[head.end() :])


def load_head(head: str) -> object:
    """Parse a head. Raises `yaml.YAMLError`, `ValueError` and `RecursionError`."""
    import yaml  # noqa: PLC0415 - `initialize` has no need of it.

    # This loader reads every scalar as text, so a word such as `on` or a date stays as written.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    return yaml.load(head, Loader=loader)  # noqa: S506 - see above.


def parse_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Return the texts and lists of texts in the head, if any, and what comes after it."""
    head, body = split_front_matter(text)
    return ({}, text) if head is None else (_values(head), body.strip("\r\n"))


def _values(head: str) -> dict[str, str | list[str]]:
    from yaml import YAMLError  # noqa: PLC0415 - see `load_head`.

    try:
        loaded_head = load_head(head)
    except (YAMLError, ValueError, RecursionError):
        loaded_head = None
    if not isinstance(loaded_head, dict):
        # Descriptions often contain a colon and are then not YAML; other programs read the line.
        return {line[1]: line[2] for line in _LINE.finditer(head)}
    values = cast("dict[object, object]", loaded_head).items()
    return {str(key): plain for key, value in values if (plain := _plain_value(value)) is not None}


def _plain_value(value: object) -> str | list[str] | None:
    if isinstance(value, list):
        return [each for each in cast("list[object]", value) if isinstance(each, str)]
    return value if isinstance(value, str) else None
