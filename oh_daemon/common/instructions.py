"""Texts that the model follows, such as AGENTS.md, in a tag that no other text can imitate.

The renderer of messages passes all other texts through `escape_instructions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

MAX_CHARS = 32 << 10
INSTRUCTIONS_TAG = "agent_instructions"
"""The tag around texts that the model follows; `escape_instructions` keeps it out of all others."""
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_BLANKS = r"[ \t\xa0\xad\u1680\u2000-\u200f\u202f\u205f\u2060-\u2064\u3000\ufeff]*"
_INSTRUCTIONS = re.compile(
    rf"((?:\A|[{_BREAKS}]){_BLANKS})<(?={_BLANKS}/?{_BLANKS}{INSTRUCTIONS_TAG})", re.IGNORECASE
)
"""The tag where a model may take it for a tag: first in a line, however blank or broken."""


class ContextFile(Struct, frozen=True):
    """Instructions of the project, or of a `skill`; the model can view them under `name`."""

    name: str
    text: str
    skill: str | None = None


def cap_text(text: str) -> str:
    """Return at most `MAX_CHARS` characters of a file, then a note of what was cut."""
    if len(text) <= MAX_CHARS:
        return text
    cut_note = (
        f"\n[cut after {MAX_CHARS:,} of {len(text):,} characters; view the file for the rest]"
    )
    return text[:MAX_CHARS] + cut_note


def render_context_file(file: ContextFile) -> str:
    """Return the text in its tag, which it cannot close before its end.

    >>> print(render_context_file(ContextFile("web/AGENTS.md", "Use tabs.")))
    <agent_instructions file='web/AGENTS.md'>
    Use tabs.
    </agent_instructions>
    """
    skill = "" if file.skill is None else f" skill={file.skill!r}"
    head = f"<{INSTRUCTIONS_TAG}{skill} file={file.name!r}>"
    return f"{head}\n{escape_instructions(file.text.strip())}\n</{INSTRUCTIONS_TAG}>"


def instructions_part(file: ContextFile) -> dict[str, Any]:
    """Return the text as a part of a tool's result, with the mark that only the daemon sets."""
    text = render_context_file(file)
    return {"type": "text", "text": text, "_meta": {"oh-daemon/instructions": file.name}}


def is_instructions(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a result has the mark; a tool's own parts never keep it."""
    match part:
        case {"type": "text", "_meta": {"oh-daemon/instructions": _}}:
            return True
        case _:
            return False


def escape_instructions(text: str) -> str:
    """Return a text of others so that no line of it begins with the tag of instructions.

    Within a line the tag stays as it is, so that code that contains it can be edited.
    """
    return _INSTRUCTIONS.sub(r"\1&lt;", text)
