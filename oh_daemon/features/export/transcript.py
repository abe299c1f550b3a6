"""What people are told of a conversation alike, whatever shows it: its facts, items, outcomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from oh_daemon.common.amounts import render_cost
from oh_daemon.common.plain_text import unknown_text
from oh_daemon.features.conversation_tools.tools import question_text
from oh_daemon.kernel.ports import is_for_people
from oh_daemon.kernel.state import State, changes_made
from oh_daemon.protocol import plain
from oh_daemon.protocol.items import StopReason
from oh_daemon.protocol.status import PauseReason

ENDS: dict[StopReason, str] = {
    "finished": "Done",
    "endTurn": "Done",
    "needsInput": "Needs your answer",
    "maxSteps": "Stopped at the limit of steps",
    "maxCostUsd": "Stopped at the limit of cost",
    "maxCostUsdPerConversation": "Stopped at the limit of cost of this conversation",
    "maxCostUsdPerDay": "Stopped at the limit of cost of this day",
    "maxMinutes": "Stopped at the limit of time",
    "stuck": "Stopped: the agent went in circles",
    "maxTokens": "Stopped: the answer was cut",
    "toolErrors": "Stopped: too many calls were wrong",
    "noAnswer": "Stopped: the model gave no answer",
    "refusal": "Stopped: the model refused to answer",
    "hook": "Stopped by a hook",
    "cancelled": "Interrupted",
    "error": "Failed",
}
"""How a turn ended."""
PAUSES: dict[PauseReason, str] = {
    "user": "on request",
    "budget": "a limit of cost, steps or time is reached",
    "network": "the model cannot be reached",
    "rateLimit": "the provider takes no more requests for now",
    "storage": "the log cannot be written",
    "daemonRestarted": "its process had ended",
    "stuck": "the agent went in circles",
}
"""Why a turn waits."""

_CUT_OFF = "*Cut off: the daemon ended while it wrote this answer.*"
_FENCE = re.compile(r"^ *```", re.MULTILINE)
ReadBlob = Callable[[str], bytes]
"""Returns what is kept beside the log under this hash."""


def heading(state: State) -> str:
    return state.title or "A conversation"


def facts(state: State) -> Iterator[str]:
    """The date, model, folders, tokens and cost."""
    if state.created_at:
        yield state.created_at[:16].replace("T", " ") + " UTC"
    yield state.agent["label"] or state.agent["model"]
    yield from (folder.rstrip("/").rpartition("/")[2] for folder in state.folders)
    if state.usage:
        yield usage_of(state.usage)


def usage_of(usage: plain.Usage) -> str:
    n_tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    return f"{n_tokens:,} tokens, cost {render_cost(usage, 4)}"


def ending(turn: plain.Turn) -> str:
    """How a turn ended, in how many steps and for how much."""
    steps = "1 step" if turn.get("nSteps") == 1 else f"{turn.get('nSteps', 0)} steps"
    how = turn["status"]
    if error := turn.get("error"):
        how = f"{how}: {error.get('message', '')}"
    usage = turn.get("usage")
    usage_text = usage_of(usage) if usage else ""
    return " · ".join(filter(None, (how, steps, usage_text)))


def answer(item: plain.AgentMessageItem) -> str:
    """What the agent said, in Markdown, which says so at its end if the daemon ended meanwhile."""
    text = item.get("text", "")
    if item.get("reason") != "outcomeUnknown":
        return text
    # A block of code that was cut would swallow the mark.
    is_open = len(_FENCE.findall(text)) % 2 == 1
    return "\n\n".join(filter(None, (f"{text}\n```" if is_open else text, _CUT_OFF)))


def is_spoken(item: plain.Item) -> TypeGuard[plain.ToolCallItem]:
    """Whether this is a tool call whose result people read as an answer."""
    if item["kind"] != "toolCall":
        return False
    return item["tool"] == "finish" and item["status"] == "completed"


def is_question(item: plain.Item) -> TypeGuard[plain.ToolCallItem]:
    return item["kind"] == "toolCall" and item["tool"] == "ask" and item["status"] != "failed"


def question_and_answer(item: plain.ToolCallItem) -> tuple[str, str, str]:
    """The question, the user's answer, and the reason why there is none; each may be empty."""
    question, answer_text = question_text(item["args"]), text_of(item["content"])
    if answer_text == question:
        return question, "", ""  # Nobody could answer; a later message may have.
    return (question, "", answer_text) if item.get("reason") else (question, answer_text, "")


def title_of_call(item: plain.ToolItem) -> str:
    return item["command"] if item["kind"] == "command" else item.get("title") or item["tool"]


def title_of_unknown(item: Mapping[str, Any]) -> str:
    """Return a line for an item of a kind of a later release, `Rehearse (rehearsal: this …)`."""
    return f"{item.get('title', '')} {unknown_text(item['kind'])}".lstrip()


def outcome(item: plain.ToolItem) -> str:
    """How a tool call ended, in a word or two."""
    if item["status"] != "completed":
        return item.get("reason") or item["status"]
    changes = changes_made(item)
    n_added, n_removed = sum(c["added"] for c in changes), sum(c["removed"] for c in changes)
    lines = f"+{n_added} −{n_removed}" if changes else ""
    code = item.get("exitCode") if item["kind"] == "command" else None
    return " ".join(filter(None, ("" if code is None else f"exit code {code}", lines)))


def patches(item: plain.ToolItem) -> str:
    """All changes of a call as one patch."""
    changes = changes_made(item) if item["kind"] == "fileChange" else ()
    return "".join(change.get("patch") or "" for change in changes)


def notice_of(item: plain.NoticeItem) -> str:
    return " ".join(filter(None, (item["title"], item.get("description"))))


def text_of(parts: Iterable[Mapping[str, Any]]) -> str:
    texts = (part for part in parts if part.get("type") == "text" and is_for_people(part))
    return "\n".join(str(part.get("text", "")) for part in texts)


def message_text(message: plain.UserMessageItem) -> str:
    """What the user wrote and attached, as text."""
    parts = message["content"]
    texts = (("", p["text"]) if p["type"] == "text" else name_and_text(p) for p in parts)
    return "\n".join(filter(None, (words for each in texts for words in each)))


def name_and_text(part: plain.Part) -> tuple[str, str]:
    """A part that the user attached: its name for people, and the text that it carries."""
    uri = part.get("uri", "")
    name = part.get("name") or uri.rpartition("/")[2]
    lines = part.get("range")
    place = f":{lines['start']['line'] + 1}" if lines else ""
    match part["type"]:
        case "command" | "skill":
            return f"/{part['name']} {part.get('args') or ''}".strip(), ""
        case "diagnostics":
            problems = "\n".join(str(problem.get("message", "")) for problem in part["items"])
            return f"problems in {name}", problems
        case "selection" | "resource":
            return name + place, part["text"]
        case "image" | "document":
            return name or {"image": "an image", "document": "a PDF"}[part["type"]], ""
        case "resourceLink":
            return name + place, ""
        case kind:
            return f"{name} {unknown_text(kind)}".lstrip(), ""
