"""What the exported forms of a conversation say alike: its facts, its items and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from oh_daemon.core.ports import Json
from oh_daemon.core.state import TOOL_KINDS, State
from oh_daemon.tools.ask import question_text

ReadBlob = Callable[[str], bytes]
"""Returns what is kept beside the log under this hash."""


def heading(state: State) -> str:
    return state.title or "A conversation"


def facts(state: State) -> Iterator[str]:
    """The date, model, folders, tokens and cost."""
    if state.created_at:
        yield state.created_at[:16].replace("T", " ") + " UTC"
    yield state.agent.get("label") or state.agent.get("model", "")
    yield from (folder.rstrip("/").rpartition("/")[2] for folder in state.folders)
    if state.usage:
        yield usage_of(state.usage)


def usage_of(usage: Json) -> str:
    cost = usage.get("cost")
    price = f"${cost['amount']:.4f}" if cost else "cost unknown"
    return f"{usage.get('inputTokens', 0) + usage.get('outputTokens', 0):,} tokens, {price}"


def ending(turn: Json) -> str:
    """How a turn ended, in how many steps and for how much."""
    steps = "1 step" if turn.get("nSteps") == 1 else f"{turn.get('nSteps', 0)} steps"
    how = turn["status"]
    if turn.get("error"):
        how = f"{how}: {turn['error'].get('message', '')}"
    spent = usage_of(turn["usage"]) if turn.get("usage") else ""
    return " · ".join(filter(None, (how, steps, spent)))


def is_spoken(item: Json) -> bool:
    """Whether this is a tool call whose result people read as an answer."""
    is_finish = item["kind"] == "toolCall" and item["tool"] == "finish"
    return is_finish and item["status"] == "completed"


def is_question(item: Json) -> bool:
    return item["kind"] == "toolCall" and item["tool"] == "ask" and item["status"] != "failed"


def question_and_answer(item: Json) -> tuple[str, str, str]:
    """The question, the user's answer, and the reason why there is none; each may be empty."""
    question, came = question_text(item["args"]), text_of(item["content"])
    if came == question:
        return question, "", ""  # Nobody could answer; a later message may have.
    return (question, "", came) if item.get("reason") else (question, came, "")


def is_tool(item: Json) -> bool:
    return item["kind"] in TOOL_KINDS


def title_of_call(item: Json) -> str:
    return item["command"] if item["kind"] == "command" else item.get("title") or item["tool"]


def outcome(item: Json) -> str:
    """How a tool call ended, in a word or two."""
    if item["status"] != "completed":
        return item.get("reason") or item["status"]
    code, changes = item.get("exitCode"), item.get("changes", ())
    if code is not None:
        return f"exit code {code}"
    added, removed = (sum(change[key] for change in changes) for key in ("added", "removed"))
    return f"+{added} −{removed}" if changes else ""


def patches(item: Json) -> str:
    """All changes of a call as one patch."""
    return "".join(change.get("patch") or "" for change in changes_made(item))


def changes_made(item: Json) -> Sequence[Json]:
    return item.get("changes", ()) if item["status"] == "completed" else ()


def notice_of(item: Json) -> str:
    return " ".join(filter(None, (item["title"], item.get("description"))))


def text_of(parts: Iterable[Json]) -> str:
    return "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def told_part(part: Json) -> tuple[str, str]:
    """A part that the user attached: its name for people, and the text that it carries."""
    uri = part.get("uri", "")
    name = part.get("name") or uri.rpartition("/")[2]
    lines = part.get("range")
    place = f":{lines['start']['line'] + 1}" if lines else ""
    match part["type"]:
        case "command":
            return f"/{part['name']} {part.get('args') or ''}".strip(), ""
        case "diagnostics":
            problems = "\n".join(str(problem.get("message", "")) for problem in part["items"])
            return f"problems in {name}", problems
        case "selection" | "resource":
            return name + place, part["text"]
        case "image":
            return "an image", ""
        case _:
            return name + place, ""
