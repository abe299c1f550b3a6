"""Exports a conversation as one text: its log, Markdown, a page (`export_page`) or `export_atif`.

Secrets are masked in the records before they are rendered, including secrets that became known only
after the log was written. In Markdown, HTML and images become text or links (see `inert`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import orjson

from oh_daemon.common.masking import Masker
from oh_daemon.common.plain_text import OF_EMOJI, display_escaped
from oh_daemon.features.export import transcript
from oh_daemon.features.export.atif import render_trajectory
from oh_daemon.features.export.transcript import ReadBlob
from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.records import items_and_turns
from oh_daemon.kernel.state import State
from oh_daemon.protocol import plain

Format = Literal["jsonl", "markdown", "html", "atif"]
_MARKS = {"completed": "x", "inProgress": "-", "pending": " "}


def render_export(
    conversation_id: str,
    records: Iterable[plain.Record],
    form: Format,
    *,
    masker: Masker,
    read_blob: ReadBlob,
) -> str:
    """Return the whole text; `read_blob` returns the images that are kept beside the log."""
    lines = [masker.mask(orjson.dumps(record).decode()) for record in records]
    if form == "jsonl":
        return "".join(f"{line}\n" for line in lines)
    masked_records = [orjson.loads(line) for line in lines]
    state = fold(conversation_id, masked_records)
    if form == "markdown":
        return render_markdown(state, masked_records)
    if form == "atif":
        return render_trajectory(state, masked_records)
    # The page needs a Markdown parser, which is slow to import.
    from oh_daemon.features.export.page import render_page  # noqa: PLC0415

    return render_page(state, masked_records, read_blob)


def render_markdown(state: State, records: Sequence[plain.Record]) -> str:
    """Render for a note or an issue; output of tools stands in fences that it cannot close."""
    facts = " · ".join(map(one_line, transcript.facts(state)))
    parts = [f"# {one_line(transcript.heading(state))}", facts]
    for it in items_and_turns(records):
        parts += _markdown_item(it) if "kind" in it else [f"---\n\n*{transcript.ending(it)}*"]
    # The whole document is judged: a block of code that is not closed goes on in the next part.
    return prose(display_escaped("\n\n".join(part for part in parts if part), OF_EMOJI)) + "\n"


def _markdown_item(item: plain.Item) -> list[str]:
    match item["kind"]:
        case "userMessage":
            return ["## You", *_quote_parts(item["content"])]
        case "agentMessage":
            return ["## Agent", transcript.answer(item)]
        case "condensation":
            summary = item.get("summary")
            return [f"*Older steps were condensed.*\n\n{summary}"] if summary else []
        case "notice":
            return [f"> **{one_line(transcript.notice_of(item))}**"]
        case "plan":
            return [plan_list(item)]
        case "command" | "fileChange" | "toolCall":
            return _markdown_call(item)
        case "reasoning" | "subagent":
            return []
        case _:
            return [f"*{one_line(transcript.title_of_unknown(item))}*"]


def plan_list(item: plain.PlanItem) -> str:
    rows = (f"- [{_MARKS[e['status']]}] {one_line(e['text'])}" for e in item["entries"])
    return "\n".join(rows)


def _markdown_call(item: plain.ToolItem) -> list[str]:
    if transcript.is_spoken(item):
        return ["## Agent", transcript.text_of(item["content"])]
    if transcript.is_question(item):
        question, answer, why_none = transcript.question_and_answer(item)
        answer_lines = (
            ["## You", *_quote_parts([{"type": "text", "text": answer}])] if answer else []
        )
        return ["## Agent", question, *answer_lines, f"*{why_none}*" if why_none else ""]
    return _markdown_work(item)


def prose(text: str) -> str:
    """Return Markdown that people and models wrote without HTML, images and unsafe links."""
    if "<" not in text and "[" not in text:
        return text
    # It needs a Markdown parser, which is slow to import.
    from oh_daemon.features.export.inert import inert_markdown  # noqa: PLC0415

    return inert_markdown(text)


def _quote_parts(parts: Iterable[plain.Part]) -> Iterator[str]:
    for part in parts:
        if part["type"] == "text":
            yield "\n".join(f"> {line}" for line in part["text"].splitlines())
            continue
        name, text = transcript.name_and_text(part)
        yield f"> `{one_line(name)}`"
        if text:
            yield fence(text)


def _markdown_work(item: plain.ToolItem) -> list[str]:
    patch, text = transcript.patches(item), transcript.text_of(item.get("content", ()))
    how = one_line(transcript.outcome(item))
    lead = f"**{how}**" if how else ""
    if item["kind"] == "command":
        return [fence(item["command"], "sh"), lead, fence(text)]
    lead = f"{code_span(transcript.title_of_call(item))} {lead}".rstrip()
    return [lead, fence(patch, "diff") if patch else fence(text)]


def fence(text: str, language: str = "") -> str:
    """A fenced block that the text cannot close; empty for empty text."""
    if not text.strip():
        return ""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def code_span(text: str) -> str:
    return f"`{one_line(text).replace('`', chr(0x2019))}`"


def one_line(text: str) -> str:
    return " ".join(text.split())
