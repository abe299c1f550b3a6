"""Renders a conversation as one text to share: its log, Markdown, or an HTML page.

Rendering is pure. Secrets are masked in the records before they are rendered, including secrets
that became known only after the log was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import orjson

from oh_daemon.core.ports import Json
from oh_daemon.core.secrets import Masker
from oh_daemon.core.state import TOOL_KINDS, State, fold
from oh_daemon.core.timeline import told
from oh_daemon.tools.ask import question_text

Format = Literal["jsonl", "markdown", "html"]
ReadBlob = Callable[[str], bytes]
_CONTROLS = re.compile(r"(?![\n\t])[\x00-\x1f\x7f-\x9f]")
"""What a terminal that shows the text would obey."""
MARKS = {"completed": "x", "inProgress": "-", "pending": " "}


def render_export(
    conversation_id: str,
    records: Iterable[Json],
    form: Format,
    *,
    masker: Masker,
    read_blob: ReadBlob,
) -> str:
    """Return the whole text; `read_blob` returns the images that are kept beside the log."""
    lines = [masker.mask(orjson.dumps(record).decode()) for record in records]
    if form == "jsonl":
        return "".join(f"{line}\n" for line in lines)
    masked = [orjson.loads(line) for line in lines]
    state = fold(conversation_id, masked)
    if form == "markdown":
        return render_markdown(state, masked)
    # The page needs a Markdown parser, which is slow to import.
    from oh_daemon.fronts.export_page import render_page  # noqa: PLC0415

    return render_page(state, masked, read_blob)


def render_markdown(state: State, records: Sequence[Json]) -> str:
    """Render for a note or an issue; output of tools stands in fences that it cannot close."""
    parts = [f"# {_one_line(heading(state))}", " · ".join(_one_line(f) for f in facts(state))]
    for kind, told_of in told(records):
        parts += _markdown_item(told_of) if kind == "item" else [f"---\n\n*{ending(told_of)}*"]
    return _CONTROLS.sub("\ufffd", "\n\n".join(part for part in parts if part)) + "\n"


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


def _markdown_item(item: Json) -> list[str]:
    kind = item["kind"]
    if kind == "userMessage":
        return ["## You", *_quoted(item["content"])]
    if kind == "agentMessage":
        return ["## Agent", item.get("text", "")]
    if kind == "condensation":
        return (
            [f"*Older steps were condensed.*\n\n{item['summary']}"] if item.get("summary") else []
        )
    if kind == "notice":
        return [f"> **{_one_line(notice_of(item))}**"]
    if kind == "plan":
        return [
            "\n".join(f"- [{MARKS[e['status']]}] {_one_line(e['text'])}" for e in item["entries"])
        ]
    if is_spoken(item):
        return ["## Agent", text_of(item["content"])]
    if is_question(item):
        asked, answer, why_none = question_and_answer(item)
        said = ["## You", *_quoted([{"type": "text", "text": answer}])] if answer else []
        return ["## Agent", asked, *said, f"*{why_none}*" if why_none else ""]
    return _markdown_call(item) if is_tool(item) else []


def _quoted(parts: Iterable[Json]) -> Iterator[str]:
    for part in parts:
        if part["type"] == "text":
            yield "\n".join(f"> {line}" for line in part["text"].splitlines())
            continue
        name, text = told_part(part)
        yield f"> `{_one_line(name)}`"
        if text:
            yield fenced(text)


def _markdown_call(item: Json) -> list[str]:
    patch, said = patches(item), text_of(item.get("content", ()))
    how = _one_line(outcome(item))
    lead = f"**{how}**" if how else ""
    if item["kind"] == "command":
        return [fenced(item["command"], "sh"), lead, fenced(said)]
    lead = f"{_code(title_of_call(item))} {lead}".rstrip()
    return [lead, fenced(patch, "diff") if patch else fenced(said)]


def fenced(text: str, language: str = "") -> str:
    """A fenced block that the text cannot close; empty for empty text."""
    if not text.strip():
        return ""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _code(text: str) -> str:
    return f"`{_one_line(text).replace('`', chr(0x2019))}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())
