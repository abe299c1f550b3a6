"""The view: a conversation's items as the messages a model gets, in OpenAI's chat form.

It grows with the conversation and is rebuilt only after a condensation or a rollback: step 1,000
costs what step 10 does. Every assistant message with tool calls is followed immediately by exactly
one result for each.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from msgspec import Struct, field

from oh_daemon.common.instructions import escape_instructions, is_instructions
from oh_daemon.common.plain_text import clip_line, ends, unknown_text, within_tag
from oh_daemon.common.progress import render_changed_files, render_plan
from oh_daemon.kernel.pending_changes import is_own
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.prompt import render_rows
from oh_daemon.kernel.state import ENDED, changes_made, is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import DaemonError

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that all providers with image input accept."""
NOTHING = "none"
"""What the model takes the editor to show until it is told something else."""
LOG_SCHEME = "oh-log:/"
GIT_DIFF = "oh-git:/diff"
_BLOB = "blob:"
_CUT = "This answer was cut off when the daemon ended. The user has read what is there."
_GIST_LINES = 3
_GIST_CHARS = 200
_IMAGE_CHARS = 6_000
"""The size of an image in estimates, however large its data is."""
_DOCUMENT_CHARS = 40_000
"""The same of a PDF: some six pages, which providers read as text and images."""
_FILES = frozenset({"image", "document"})


class HistoryCut(Struct, frozen=True):
    """What a condensation keeps: items from `start` on, and at most two earlier user messages."""

    start: int
    pruned_ids: frozenset[str] = frozenset()
    """Ids of kept items whose result is left out."""
    summary: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many characters of a result are shown, by the ids of kept items."""
    window: int = 0
    """The tokens that these results had to fit; 0 is unknown."""

    def excerpt(self, item: plain.Item) -> plain.Item:
        """Return the item with what is left of its result."""
        limit = self.limits.get(item["id"])
        if not is_tool_item(item) or not (limit or item["id"] in self.pruned_ids):
            return item
        parts: Sequence[Json] = item["content"]
        images = list(filter(_is_seen, parts))
        instructions = list(filter(is_instructions, parts))
        n_chars = sum(len(part["text"]) for part in instructions)
        if limit is None or n_chars > limit:
            instructions, n_chars = [], 0
        beside = (*images, *instructions)
        text = "\n".join(_content_text(part) for part in parts if part not in beside)
        if item["id"] in self.pruned_ids:
            images, instructions, text = [], [], _gist(item, text)
        elif limit is not None:
            why = f"the window is {self.window:,} tokens" if self.window else "more did not fit"
            text = ends(text, limit - n_chars, f"{why}; view fewer lines, or one file per answer")
        excerpt = item.copy()
        excerpt["content"] = [*images, {"type": "text", "text": text}, *instructions]
        return excerpt


def _gist(item: plain.ToolItem, text: str) -> str:
    """Return how an action ended, and the first and the last lines of its result."""
    code = item.get("exitCode")
    ending = item["status"] if code is None else f"{item['status']}, exit code {code}"
    lines = text.splitlines()
    head, rest = lines[:_GIST_LINES], lines[_GIST_LINES:]
    gist = [*head, *["[…]"] * (len(rest) > _GIST_LINES), *rest[-_GIST_LINES:]]
    note = f"to save room, only the first and last lines of {len(lines)} are left"
    return "\n".join((f"[{ending}; {note}]", *(clip_line(line, _GIST_CHARS) for line in gist)))


class ModelContext:
    """Messages for the next request; always well formed, since only finished batches enter."""

    def __init__(self, system_prompt: str) -> None:
        self._messages: list[Json] = [{"role": "system", "content": system_prompt}]
        self._in_parts: list[int] = []
        """Where in them the content is a list, which may have images."""
        self._n_rendered_items = 0
        self._last_id: str | None = None
        self.n_chars = 0
        """Size of all messages but the system prompt."""

    def messages(self, items: Sequence[plain.Item]) -> list[Json]:
        """Take in the items since the last call, up to an unfinished batch; return all messages.

        Each is the same object at every call, so whoever prepared it once need not do it again.
        """
        if self._n_rendered_items and not self._is_continued_by(items):
            # The conversation was rolled back.
            self._clear()
            self._n_rendered_items = 0
        while self._n_rendered_items < len(items):
            end = _batch_end(items, self._n_rendered_items)
            if any(item["status"] not in ENDED for item in items[self._n_rendered_items : end]):
                break
            history_cut = _read_cut(items, self._n_rendered_items)
            if history_cut is None:
                self._add(render_batch(items[self._n_rendered_items : end]))
            else:
                self._clear()
                self._add(render_cut(history_cut, items[: self._n_rendered_items]))
            self._n_rendered_items = end
            self._last_id = items[end - 1]["id"]
        return list(self._messages)

    def fill_images(self, messages: list[Json], read_blob: Callable[[str], bytes]) -> None:
        """Replace those of the last call that have images stored as blobs by such with the data."""
        for n in self._in_parts:
            messages[n] = with_images(messages[n], read_blob)

    def _is_continued_by(self, items: Sequence[plain.Item]) -> bool:
        return (
            len(items) >= self._n_rendered_items
            and items[self._n_rendered_items - 1]["id"] == self._last_id
        )

    def _clear(self) -> None:
        del self._messages[1:]
        self._in_parts.clear()
        self.n_chars = 0

    def _add(self, messages: Sequence[Json]) -> None:
        for message in messages:
            if isinstance(message.get("content"), list):
                self._in_parts.append(len(self._messages))
            self._messages.append(message)
            self.n_chars += size_of(message)


def find_cut(items: Sequence[plain.Item]) -> HistoryCut:
    """Return the cut of the newest condensation, or one that keeps everything."""
    cuts = (_read_cut(items, n) for n in range(len(items) - 1, -1, -1))
    return next((history_cut for history_cut in cuts if history_cut is not None), HistoryCut(0))


def in_context(items: Sequence[plain.Item]) -> list[plain.Item]:
    """Return the items that the model still gets."""
    history_cut = find_cut(items)
    return [*_words_before(history_cut, items), *items[history_cut.start :]]


def _words_before(
    history_cut: HistoryCut, items: Sequence[plain.Item]
) -> list[plain.UserMessageItem]:
    """Return, of what was cut, the first and the last message of the user."""
    messages = [item for item in items[: history_cut.start] if is_message(item)]
    return [*messages[:1], *messages[1:][-1:]]


def _read_cut(items: Sequence[plain.Item], position: int) -> HistoryCut | None:
    item = items[position]
    if item["kind"] != "condensation" or item["status"] != "completed" or "keepFrom" not in item:
        return None
    start = next(n for n, candidate in enumerate(items) if candidate["id"] == item["keepFrom"])
    pruned_ids, limits = frozenset(item["pruned"]), item.get("limits") or {}
    return HistoryCut(start, pruned_ids, item.get("summary"), limits, item.get("contextSize") or 0)


def render_cut(history_cut: HistoryCut, items: Sequence[plain.Item]) -> list[Json]:
    """Render the task, the summary with plan and changed files, and what is kept.

    The user's latest message follows the summary if it was cut.
    """
    earlier_messages = _words_before(history_cut, items)
    messages = render_batch(earlier_messages[:1]) if earlier_messages else []
    changes = (change for item in items[: history_cut.start] for change in changes_made(item))
    blocks = [_render_plan(history_cut, items), render_changed_files(changes)]
    if history_cut.summary is not None:
        summary = escape_instructions(history_cut.summary)
        blocks.insert(0, f'<summary of="your work so far">\n{summary}\n</summary>')
    if text := "\n".join(filter(None, blocks)):
        messages.append({"role": "user", "content": text})
    if earlier_messages[1:]:
        messages.extend(render_batch(earlier_messages[1:]))
    for first, end in find_batches(items, history_cut.start):
        messages.extend(render_batch([history_cut.excerpt(item) for item in items[first:end]]))
    return messages


def _render_plan(history_cut: HistoryCut, items: Sequence[plain.Item]) -> str:
    """Render the plan if its call was cut, as a summary may lack it."""
    plans = [
        (n, item["entries"])
        for n, item in enumerate(items)
        if item["kind"] == "plan" and item["status"] == "completed"
    ]
    is_cut = bool(plans) and plans[-1][0] < history_cut.start
    return render_plan(plans[-1][1]) if is_cut else ""


def find_batches(items: Sequence[plain.Item], start: int) -> list[tuple[int, int]]:
    """Return index ranges of model answers (with results) and single items from `start` on."""
    batches: list[tuple[int, int]] = []
    while start < len(items):
        batches.append((start, _batch_end(items, start)))
        start = batches[-1][1]
    return batches


def size_of(message: Json) -> int:
    """Return the size of a message in characters, for estimates."""
    content = message.get("content") or ""
    size = len(str(message.get("tool_calls", "")))
    if isinstance(content, str):
        return size + len(content)
    chars = {"image_url": _IMAGE_CHARS, "file": _DOCUMENT_CHARS}
    return size + sum(len(part.get("text", "")) or chars.get(part["type"], 0) for part in content)


def _batch_of(item: plain.Item) -> str | None:
    return item["call"]["batch"] if is_tool_item(item) else item.get("batch")


def _batch_end(items: Sequence[plain.Item], start: int) -> int:
    """Return the index after the last item of the model answer that begins at `start`."""
    batch = _batch_of(items[start])
    end = start + 1
    while batch is not None and end < len(items) and _batch_of(items[end]) == batch:
        end += 1
    return end


def is_message(item: plain.Item) -> TypeGuard[plain.UserMessageItem]:
    """Return whether this is a message of the user that the model may get: no hook refused it."""
    return item["kind"] == "userMessage" and item.get("status") != "rejected"


def render_batch(items: Sequence[plain.Item]) -> list[Json]:
    """Render one user message, one notice, or one model answer with its results."""
    first = items[0]
    if first["kind"] == "userMessage":
        if not is_message(first):
            return []
        notes = (("editor", first.get("editor")), ("environment", first.get("environment")))
        content = [*first["content"], *_note_parts(notes)]
        return [{"role": "user", "content": _user_content(content)}]
    if first["kind"] == "notice":
        note = first.get("note") or ""
        # A skill's notice holds its text, any other one may quote the output of a program.
        text = note if "skill" in first else escape_instructions(note)
        return [{"role": "user", "content": f"<note>{text}</note>"}] if text else []
    if first["kind"] == "subagent":
        return _render_subagent(first)
    if first["kind"] == "condensation":
        return []
    if is_own(first):
        text = "\n".join(map(_content_text, first.get("content", ())))
        return [{"role": "user", "content": f"<note>{text}</note>"}] if text else []
    return _render_answer(items)


def _render_subagent(item: plain.SubagentItem) -> list[Json]:
    """Render a sub-agent only if the daemon's end cut it off; else the call has its result."""
    if item.get("reason") != "outcomeUnknown":
        return []
    name, resume = f"{item['agent']} ({item['title']})", item["conversationId"]
    note = f"The sub-agent {name} was cut off; a task with resume {resume!r} goes on with it."
    return [{"role": "user", "content": f"<note>{note}</note>"}]


def last_reported(items: Sequence[plain.Item]) -> dict[str, str]:
    """Return what the model was told of the editor and its environment and still gets."""
    text_by_kind: dict[str, str] = {}
    for item in in_context(items):
        if item["kind"] in {"userMessage", "notice"}:
            text_by_kind |= item.get("editor", {}) | item.get("environment", {})
    return text_by_kind


def _note_parts(notes: Sequence[tuple[str, dict[str, str] | None]]) -> list[plain.TextPart]:
    """Render it as parts of its message, so that no earlier message changes."""
    return [
        {"type": "text", "text": f"<{tag}>\n{render_rows(facts)}\n</{tag}>"}
        for tag, facts in notes
        if facts
    ]


def _render_answer(items: Sequence[plain.Item]) -> list[Json]:
    heard = [item for item in items if item.get("reason") != "retried"]
    text = "".join(item.get("text", "") for item in heard if item["kind"] == "agentMessage")
    calls = [item for item in heard if is_tool_item(item)]
    if not (text or calls):
        return []
    answer: Json = {"role": "assistant", "content": text or None}
    if calls:
        answer["tool_calls"] = [_render_call(item["call"]) for item in calls]
    thoughts = [item for item in heard if item["kind"] == "reasoning"]
    if thoughts and thoughts[-1]["status"] == "completed":
        answer["thinking"] = _thinking(thoughts[-1])
    is_cut = any(item.get("reason") == "outcomeUnknown" for item in heard) and not calls
    note = [{"role": "user", "content": f"<note>{_CUT}</note>"}] if is_cut else []
    return [answer, *map(_render_result, calls), *note]


def _thinking(item: plain.ReasoningItem) -> Json:
    """Return it outside OpenAI's form: providers want only their own, each in another form."""
    blocks = list(item.get("blocks", ()))
    return {"model": item.get("model"), "text": item.get("text", ""), "blocks": blocks}


def _render_call(call: plain.ModelCall) -> Json:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}


def _render_result(item: plain.ToolItem) -> Json:
    parts: Sequence[Json] = item.get("content", ())
    content: str | list[Json] = "\n".join(map(_content_text, parts)) or "(no output)"
    if any(map(_is_seen, parts)):
        content = [
            _image_url(part) if _is_seen(part) else {"type": "text", "text": _content_text(part)}
            for part in parts
        ]
    return {"role": "tool", "tool_call_id": item["call"]["id"], "content": content}


def _is_seen(part: Json) -> bool:
    """Return whether it is an image that models take, and not marked by MCP as the user's only."""
    match part:
        case {"type": "image", "annotations": {"audience": ["user"]}}:
            return False
        case {"type": "image", "mimeType": str(kind)}:
            return kind in IMAGE_TYPES
        case _:
            return False


def _content_text(part: Json) -> str:
    """Return a part of a result as the model reads it: only instructions of ours have their tag."""
    text = _plain_content(part)
    return text if is_instructions(part) else escape_instructions(text)


def _plain_content(part: Json) -> str:
    match part.get("type"):
        case "text":
            return part["text"]
        case "resource":
            resource: Json = part["resource"] if isinstance(part.get("resource"), dict) else {}
            kind = resource.get("mimeType", "unknown type")
            return str(resource.get("text", f"(a file of {kind}, {resource.get('uri')})"))
        case "resource_link":
            name = part.get("title") or part.get("name", "")
            return f"<resource uri={part['uri']!r} name={name!r}/>"
        case kind:
            return f"({kind} content, not shown to the model)"


def _user_content(parts: Sequence[plain.Part]) -> str | list[Json]:
    """Return plain text where that is enough, since some endpoints accept no list."""
    if any(part["type"] in _FILES for part in parts):
        return [_user_part(part) for part in parts]
    return "\n\n".join(_part_text(part) for part in parts)


def _user_part(part: plain.Part) -> Json:
    if part["type"] == "image":
        return _image_url(part)
    if part["type"] == "document":
        name = part.get("name") or "document.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": _data_url(part)}}
    return {"type": "text", "text": _part_text(part)}


def _image_url(part: plain.ImagePart | Json) -> Json:
    return {"type": "image_url", "image_url": {"url": _data_url(part)}}


def _data_url(part: plain.ImagePart | plain.DocumentPart | Json) -> str:
    data = part.get("data")
    # Images are large: one stored as a blob is read for each request and not kept in memory.
    url = f"{_BLOB}{part.get('outputRef')}" if data is None else f"base64,{data}"
    return f"data:{part['mimeType']};{url}"


def with_images(message: Json, read_blob: Callable[[str], bytes]) -> Json:
    """Return the message with the images and PDFs that are stored as blobs filled in."""
    content: list[Json] = message["content"]
    return {**message, "content": [_with_image(part, read_blob) for part in content]}


def _with_image(part: Json, read_blob: Callable[[str], bytes]) -> Json:
    kind, field = ("file", "file_data") if part["type"] == "file" else ("image_url", "url")
    head, is_blob, ref = part.get(kind, {field: ""})[field].partition(_BLOB)
    if not is_blob:
        return part
    try:
        data = b64encode(read_blob(ref)).decode()
    except DaemonError:
        return {"type": "text", "text": "(a file that is no longer stored)"}
    return {"type": kind, kind: {**part[kind], field: f"{head}base64,{data}"}}


def _part_text(part: plain.Part) -> str:
    text = _plain_part(part)
    is_typed = part["type"] in {"text", "command", "skill"}
    return text if is_typed else escape_instructions(text)


def _plain_part(part: plain.Part) -> str:
    match part["type"]:
        case "text":
            return part["text"]
        case "resource":
            # Words of another conversation's agent must not look like words of the user.
            tag = "message" if part["uri"].startswith(LOG_SCHEME) else "resource"
            return f"<{tag} uri={part['uri']!r}>\n{within_tag(tag, part['text'])}\n</{tag}>"
        case "resourceLink" if "text" in part:
            tag = "conversation" if part["uri"].startswith(LOG_SCHEME) else "resource"
            return f"<{tag} uri={part['uri']!r}>\n{within_tag(tag, part['text'])}\n</{tag}>"
        case "resourceLink":
            return f"<file uri={part['uri']!r}{_lines(part.get('range'))}/>"
        case "selection":
            place = f"uri={part['uri']!r}{_lines(part['range'])}"
            return f"<selection {place}>\n{within_tag('selection', part['text'])}\n</selection>"
        case "diagnostics":
            rows = "\n".join(_diagnostic(item) for item in part["items"])
            return f"<diagnostics uri={part['uri']!r}>\n{rows}\n</diagnostics>"
        case "command" | "skill" if prompt := part.get("prompt"):
            return prompt
        case kind:
            return unknown_text(kind)


def _lines(span: plain.Range | None) -> str:
    if span is None:
        return ""
    return f" lines={span['start']['line'] + 1}-{span['end']['line'] + 1}"


def _diagnostic(item: Json) -> str:
    line = item.get("range", {}).get("start", {}).get("line", 0) + 1
    return f"line {line}: {item.get('message', '')}"
