"""Notices with a code: caveats, each of which is logged once, and nudges of the model.

Older logs say in words only what today's say by codes; the tables here know these words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Caveat, ModelAnswer
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.items import NoticeItem

EMPTY_ANSWER = "emptyAnswer"
"""The code of a notice that nudges a model which said nothing."""

WRITTEN_CALL = "writtenCall"
"""The code of a notice that nudges a model which wrote a call into its text."""
_EMPTY_NOTE = (
    "Your last answer held neither text nor a tool call. Go on with the task, or call finish when "
    "it is done."
)
_WRITTEN_TITLE = (
    "The model wrote a tool call into its text, which was not run, and was told so; if its server "
    "passes no native calls on, set `llm.nativeToolCalling` to false"
)
_WRITTEN_NOTE = (
    "Your last answer held a tool call in its text. Nothing was run. Call the tool itself, outside "
    "any text or code block, or say in words what you mean."
)
_NUDGES: Mapping[str, tuple[str, str]] = {
    EMPTY_ANSWER: ("The model gave an empty answer and was asked to go on", _EMPTY_NOTE),
    WRITTEN_CALL: (_WRITTEN_TITLE, _WRITTEN_NOTE),
}
"""Title and note by code."""

_CODES: Mapping[str, str] = {
    _EMPTY_NOTE: EMPTY_ANSWER,
    "Your calls did not fit the tools. Look at the names and schemas of the tools again.": (
        "wrongCalls"
    ),
    "You made the same call four times and got the same result. Do not make it again: say what "
    "you are missing, or try another way.": "identicalCalls",
    "Your last three answers ended with the same error. Do not repeat them: read the error, "
    "look at how things stand now, and try another way, or ask the user.": "sameError",
    "You went back and forth between two calls and got the same results each time. Do neither "
    "again: say what you are missing, or try another way.": "alternatingCalls",
    "You talked three times in a row without a tool call. Act, or say what keeps you from it.": (
        "monologue"
    ),
}
"""The code by the note for the model."""
_CAVEATS = {
    re.compile(title): code
    for title, code in {
        r"This is the demo model: .*": "demoModel",
        r"The MCP server '(.*)' failed": "mcpServerFailed",
        r"The MCP server '(.*)' is left out": "mcpServerLeftOut",
        r"Commands leave no checkpoints here": "noCheckpoints",
        r"(\S+) is not known to call functions: .*": "noFunctionCalls",
        r"The limit of cost counts only calls with a known price": "unknownPrice",
        r"The skill (.*) is not used": "unusedSkill",
    }.items()
}
"""The code by the title for the user, in which the group is what it is about."""
_ROW = re.compile(r"^- ([\w.-]+)(?=:|$)", re.MULTILINE)


def warn(journal: Journal, caveat: Caveat) -> None:
    """Log a caveat for the user, once per conversation."""
    key = caveat.code, caveat.about
    if any(caveat_of(item) == key for item in journal.state.items):
        return
    notice = NoticeItem(
        id=new_id(),
        severity="warning",
        code=caveat.code,
        about=caveat.about,
        title=caveat.title,
        description=caveat.description,
    )
    journal.append(e.ItemCompleted(item=notice))


def nudge_to_answer(journal: Journal, answer: ModelAnswer) -> None:
    """Ask a model to go on that gave an empty answer, or wrote a call into its text."""
    code = WRITTEN_CALL if answer.has_written_call else EMPTY_ANSWER
    title, note = _NUDGES[code]
    notice = NoticeItem(id=new_id(), severity="warning", code=code, title=title, note=note)
    journal.append(e.ItemCompleted(item=notice))


def code_of(item: plain.Item) -> str | None:
    """Return what a notice says; None for what is no notice, or for one that has no code."""
    if item["kind"] != "notice":
        return None
    return item.get("code") or _CODES.get(item.get("note") or "")


def caveat_of(item: plain.Item) -> tuple[str, str | None] | None:
    """Return the code of a notice and what it is about; None for what has no code."""
    if item["kind"] != "notice":
        return None
    if (code := item.get("code")) is not None:
        return code, item.get("about")
    for title, code in _CAVEATS.items():
        if match := title.fullmatch(item["title"]):
            return code, match[1] if title.groups else None
    return None


def skills_listed_in(text: str) -> list[str]:
    """Return the names in a list of skills for the model."""
    return _ROW.findall(text)
