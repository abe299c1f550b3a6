"""The head of a Markdown file, between two lines of `---`: values by name, then the text."""

from __future__ import annotations

import re
from typing import Any, cast

_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)


def parse_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The values of the head (none without one) and what comes after it."""
    head = _HEAD.match(text)
    if head is None:
        return {}, text
    return _values(head[1]), text[head.end() :].strip("\r\n")


def _values(head: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - `initialize` has no need of it.

    try:
        found: object = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError):
        found = None
    if isinstance(found, dict):
        return {str(key): value for key, value in cast("dict[object, Any]", found).items()}
    # Descriptions with a colon in them are common and no YAML; other programs take the line.
    return {line[1]: line[2] for line in _LINE.finditer(head)}
