"""A conversation as a Markdown text in which the user writes: its form, as pure functions of texts.

The text ends with a heading `## You` and what the user has not sent. Whatever comes goes in above
that heading, or right below what was sent: no edit replaces a character of the user's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.workspace.text_changes import apply_edits

Plan = Callable[[str], Sequence[TextEdit]]
"""Returns what to put into the text that is there."""

EMPTY = "## You\n\n"
_AGENT = "## Agent\n\n"
_YOU = re.compile(r"^## You[ \t\r]*$", re.MULTILINE)
_ID = re.compile(r"\A<!-- conversation ([0-9a-f]{1,64}) -->")


def conversation_of(text: str) -> str | None:
    """Return the id in the first line; None before the first message."""
    match = _ID.match(text)
    return match[1] if match else None


def id_mark(conversation_id: str) -> str:
    """Return the line that a chat begins with."""
    return f"<!-- conversation {conversation_id} -->\n\n"


def heading_line(text: str) -> int | None:
    """Return the number of the line of the last `## You`, counted from 0."""
    place = _last_you(text)
    return None if place is None else text.count("\n", 0, place[0])


def draft(text: str) -> str:
    """Return what the user wrote and has not sent; empty if there is nothing or no heading."""
    place = _last_you(text)
    return "" if place is None else text[place[1] :].strip()


def plan_insertion(text: str, blocks: str) -> TextEdit:
    """Return the edit that puts blocks, which end with an empty line, above the last `## You`.

    If the user has removed that heading, they come last, with a new one.
    """
    place = _last_you(text)
    if place is None:
        return TextEdit(len(text), len(text), _gap(text) + blocks + EMPTY)
    return TextEdit(place[0], place[0], _gap(text[: place[0]]) + blocks)


def plan_sent(text: str, words: str, conversation_id: str) -> list[TextEdit]:
    """Return the edits that begin an answer below these words of the draft.

    What the user typed below them meanwhile becomes the next draft.
    """
    place = _last_you(text)
    start = len(text) if place is None else place[1]
    position = text.find(words, start)
    end = len(text) if position < 0 else position + len(words)
    remaining = text[end:]
    below = EMPTY.rstrip("\n") if remaining.startswith("\n") else EMPTY
    edits = [TextEdit(end, end, f"\n\n{_AGENT}{below}")]
    if conversation_of(text) is None:
        edits.insert(0, TextEdit(0, 0, id_mark(conversation_id)))
    return edits


def compose(text: str, plans: Sequence[Plan]) -> list[TextEdit]:
    """Return the edits of all plans, each made for the text after those before it, as one."""
    insertions: dict[int, str] = {}
    for plan in plans:
        for edit in reversed(plan(apply_edits(text, _edits(insertions)))):
            _insert(insertions, edit.start, edit.text)
    return _edits(insertions)


def _edits(insertions: dict[int, str]) -> list[TextEdit]:
    return [TextEdit(at, at, insertions[at]) for at in sorted(insertions)]


def _insert(insertions: dict[int, str], at: int, text: str) -> None:
    """Add a text at a place in the text that has the others already."""
    shift = 0
    for origin in sorted(insertions):
        earlier, start = insertions[origin], origin + shift
        if at < start:
            break
        if at <= start + len(earlier):
            insertions[origin] = earlier[: at - start] + text + earlier[at - start :]
            return
        shift += len(earlier)
    insertions[at - shift] = text


def escape_text(text: str) -> str:
    """Return text of others that cannot pass for the user's: no line of it is our heading."""
    return _YOU.sub(lambda line: "\\" + line[0], text)


def whole_paragraphs(text: str) -> int:
    """Return how many characters of a text that still grows are whole paragraphs."""
    return text.rfind("\n\n") + 2 if "\n\n" in text else 0


def _last_you(text: str) -> tuple[int, int] | None:
    spans = [line.span() for line in _YOU.finditer(text)]
    return spans[-1] if spans else None


def _gap(before: str) -> str:
    """Return what is missing to an empty line."""
    if not before or before.endswith(("\n\n", "\r\n\r\n")):
        return ""
    return "\n" if before.endswith("\n") else "\n\n"
