"""Renders a conversation as one self-contained HTML page: no script, no network, light and dark.

Whatever people, models and tools wrote is escaped, or rendered from Markdown without HTML and
images. The page's own content security policy forbids whatever might still slip through.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.export import transcript
from oh_daemon.features.export.transcript import ReadBlob
from oh_daemon.kernel.context import IMAGE_TYPES
from oh_daemon.kernel.records import items_and_turns
from oh_daemon.kernel.state import State, changes_made
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import DaemonError

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_ICONS = {"command": "$", "fileChange": "±", "plan": "☰"}
_BAD = {"failed", "rejected", "cancelled"}
_DIFF = {"+": "add", "-": "del", "@": "at"}
# HTML in Markdown stays text. An image would tell its server who reads the page. Each level of
# brackets that may stand in brackets is one more pass over the text.
_MARKDOWN = MarkdownIt("js-default", {"html": False, "maxNesting": 20}).disable("image")


def _is_web(url: str) -> bool:
    """Return whether a link may lead there: other schemes start programs of the reader."""
    return re.match(r"(?i)https?://|mailto:|#", url) is not None


_MARKDOWN.validateLink = _is_web


def render_page(state: State, records: Sequence[plain.Record], read_blob: ReadBlob) -> str:
    """Return the page; `read_blob` returns the images that are kept beside the log."""
    title = escape(transcript.heading(state))
    style = Path(__file__).with_suffix(".css").read_text("utf-8")
    chips = "".join(f"<li>{escape(fact)}</li>" for fact in transcript.facts(state))
    body = "\n".join(_body(records, read_blob))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<ul class="facts">{chips}</ul>
</header>
<main>
{body}
</main>
<footer>Written by oh-daemon. This page holds no scripts and loads nothing.</footer>
</body>
</html>
"""


def _body(records: Sequence[plain.Record], read_blob: ReadBlob) -> Iterator[str]:
    for it in items_and_turns(records):
        if "kind" in it:
            yield _item(it, read_blob)
        else:
            bad = " bad" if it["status"] == "failed" else ""
            yield f'<p class="turn{bad}"><span>{escape(transcript.ending(it))}</span></p>'


def _item(item: plain.Item, read_blob: ReadBlob) -> str:
    match item["kind"]:
        case "userMessage":
            text = "".join(_part(part, read_blob) for part in item["content"])
            return f'<section class="you"><h2>You</h2>{text}</section>'
        case "agentMessage":
            return _answer(transcript.answer(item))
        case "reasoning":
            return _foldable("✻", "Thinking", "", _pre(item.get("text", "")), "thinking")
        case "notice":
            return f'<p class="note">{escape(transcript.notice_of(item))}</p>'
        case "condensation":
            return _condensation(item)
        case "command" | "fileChange" | "toolCall" | "plan":
            return _call(item)
        case "subagent":
            return ""
        case _:
            return f'<p class="note">{escape(transcript.title_of_unknown(item))}</p>'


def _answer(text: str) -> str:
    return f'<section class="agent">{_MARKDOWN.render(text)}</section>' if text else ""


def _question(item: plain.ToolCallItem) -> str:
    question, answer, why_none = transcript.question_and_answer(item)
    question_html = f'<section class="agent">{_MARKDOWN.render(question)}</section>'
    if answer:
        question_html += (
            f'<section class="you"><h2>You</h2><p class="typed">{escape(answer)}</p></section>'
        )
    return f'{question_html}<p class="note">{escape(why_none)}</p>' if why_none else question_html


def _condensation(item: plain.CondensationItem) -> str:
    summary = item.get("summary")
    if not summary:
        return ""
    inside = f'<div class="agent">{_MARKDOWN.render(summary)}</div>'
    return _foldable("⇲", "Older steps, summarized", "", inside, "thinking")


def _part(part: plain.Part, read_blob: ReadBlob) -> str:
    if part["type"] == "text":
        return f'<p class="typed">{escape(part["text"])}</p>'
    if part["type"] == "image" and (source := _source(part, read_blob)):
        return f'<img alt="an image of this message" src="{source}">'
    name, text = transcript.name_and_text(part)
    chip = f'<span class="chip">{_safe(name)}</span>'
    return f"<details><summary>{chip}</summary>{_pre(text)}</details>" if text else chip


def _source(part: plain.ImagePart, read_blob: ReadBlob) -> str | None:
    if part.get("mimeType") not in IMAGE_TYPES:
        return None
    data = part.get("data")
    if data is None and "outputRef" in part:
        try:
            data = b64encode(read_blob(part["outputRef"])).decode()
        except DaemonError:
            return None  # The image is gone; a chip says that there was one.
    return f"data:{part['mimeType']};base64,{escape(data)}" if data else None


def _call(item: plain.ToolItem) -> str:
    if transcript.is_spoken(item):
        return _answer(transcript.text_of(item.get("content", ())))
    return _question(item) if transcript.is_question(item) else _work(item)


def _work(item: plain.ToolItem) -> str:
    patch = transcript.patches(item)
    text = _pre(transcript.text_of(item.get("content", ())))
    inside = _changes(changes_made(item)) if patch else text
    if item["kind"] == "plan" and item["status"] == "completed":
        inside = _plan(item)
    elif item["kind"] == "command" and "\n" in item["command"].strip():
        inside = _pre(item["command"]) + inside
    kind, title = item["kind"], transcript.title_of_call(item).strip().partition("\n")[0]
    has_failed = item["status"] in _BAD or item.get("exitCode")
    css_class = " ".join(filter(None, (kind, "bad" if has_failed else "")))
    is_open = bool(patch) or kind == "plan"
    return _foldable(
        _ICONS.get(kind, "›"), title, transcript.outcome(item), inside, css_class, is_open=is_open
    )


def _foldable(
    icon: str, title: str, result: str, inside: str, style: str, *, is_open: bool = False
) -> str:
    summary = f"<i>{icon}</i><b>{_safe(title)}</b><em>{_safe(result)}</em>"
    open_mark = " open" if is_open else ""
    return (
        f'<details class="call {style}"{open_mark}><summary>{summary}</summary>{inside}</details>'
    )


def _plan(item: plain.PlanItem) -> str:
    rows = (f'<li class="{e["status"]}">{escape(e["text"])}</li>' for e in item["entries"])
    return f'<ul class="entries">{"".join(rows)}</ul>'


def _changes(changes: Sequence[plain.FileChange]) -> str:
    """The diff of each file, under the file's name if there are several."""
    diffs = [_diff(change.get("patch") or "") for change in changes]
    if len(changes) == 1:
        return diffs[0]
    names = [unquote(change["uri"].rpartition("/")[2]) for change in changes]
    rows = zip(names, diffs, strict=True)
    return "".join(f'<p class="file">{_safe(name)}</p>{diff}' for name, diff in rows)


def _diff(patch: str) -> str:
    """A patch, each line in a block of its own, so that its color extends to the edge."""
    rows = patch.splitlines()
    # Below the first hunk, what looks like a name of the file is a change.
    first = next((n for n, row in enumerate(rows) if row.startswith("@@ ")), 0)
    head = [row for row in rows[:first] if not row.startswith(("--- ", "+++ "))]
    lines = (*head, *rows[first:])
    spans = (
        f'<span class="{_DIFF.get(line[:1], "same")}">{_safe(line)}\n</span>' for line in lines
    )
    return f'<pre class="diff">{"".join(spans)}</pre>'


def _pre(text: str) -> str:
    return f"<pre>{_safe(text.rstrip())}</pre>" if text.strip() else ""


def _safe(text: str) -> str:
    """Escaped, and with hidden characters made visible: a command must look like what it is."""
    return escape(display_escaped(text))
