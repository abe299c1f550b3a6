"""The head of a Markdown file, between two lines of `---`: values by name, then the text."""

from __future__ import annotations

import re
from typing import cast

_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z][\w-]*):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)


def parse_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """The texts and lists of texts in the head (none without one), and what comes after it."""
    head = _HEAD.match(text)
    if head is None:
        return {}, text
    return _values(head[1]), text[head.end() :].strip("\r\n")


def _values(head: str) -> dict[str, str | list[str]]:
    import yaml  # noqa: PLC0415 - `initialize` has no need of it.

    try:
        # It makes text of everything; more than text would only have to be turned back.
        found: object = yaml.load(head, Loader=yaml.BaseLoader)  # noqa: S506 - see above.
    except (yaml.YAMLError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        # Descriptions with a colon in them are common and no YAML; other programs take the line.
        return {line[1]: line[2] for line in _LINE.finditer(head)}
    values = cast("dict[object, object]", found).items()
    return {str(key): known for key, value in values if (known := _known(value)) is not None}


def _known(value: object) -> str | list[str] | None:
    if isinstance(value, list):
        return [each for each in cast("list[object]", value) if isinstance(each, str)]
    return value if isinstance(value, str) else None
