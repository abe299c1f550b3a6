"""Records and items of a conversation as ACP's updates: pure functions, the same live and replayed.

A text that streamed is not here, nor is what a turn's end says; `session` and `turns` have these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oh_daemon.contract import plain
from oh_daemon.contract.errors import DaemonError
from oh_daemon.core.approval import whole_text
from oh_daemon.core.journal import History
from oh_daemon.core.plain_text import display_escaped, shorten
from oh_daemon.core.ports import Json
from oh_daemon.core.state import ENDED, is_tool_item
from oh_daemon.fronts.acp.chunks import chunk
from oh_daemon.workspace.paths import path_from_uri

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_TEXT_CHARS = 32 << 10
_MAX_DIFF_CHARS = 1 << 20
_SAYS_ITSELF = frozenset({"ask", "finish"})
"""Tools whose outcome is a text or a question, shown as such."""
_STATUS = {
    "pending": "pending",
    "awaitingApproval": "pending",
    "running": "in_progress",
    "completed": "completed",
}
_PLAN_STATUS = {"inProgress": "in_progress"}
_STOPPED = {
    "maxCostUsd": "the turn reached its limit of cost",
    "maxCostUsdPerConversation": "the conversation reached its limit of cost",
    "maxCostUsdPerDay": "today's limit of cost is reached",
    "maxMinutes": "the turn reached its limit of time",
    "maxSteps": "the turn reached its limit of steps",
    "stuck": "the agent went in circles",
    "toolErrors": "too many calls were wrong",
    "noAnswer": "the model gave no answer",
    "hook": "a hook ended the turn",
}
_PAUSED = {
    "budget": "a limit is reached",
    "network": "the model cannot be reached",
    "rateLimit": "the provider refuses more requests for now",
    "storage": "the log cannot be written",
    "daemonRestarted": "the agent was ended in the middle of its work",
    "stuck": "the agent went in circles",
}
REPEATED = "\n\n[The answer broke off; here it is from the start.]\n\n"

CHANNELS = {"agentMessage": "text", "reasoning": "reasoning"}
"""On which channel the text of an item streams."""

ReadText = Callable[[str], str | None]
"""Returns the text that is kept under a hash, None if there is none."""


def reader_of(history: History) -> ReadText:
    """Return what reads the texts that a conversation keeps."""

    def read(sha256: str) -> str | None:
        try:
            return history.log.read_blob(sha256).decode("utf-8", "replace")
        except DaemonError:
            return None

    return read


@dataclass(frozen=True, slots=True)
class Shows:
    """What a client can show."""

    notices: bool = False
    compaction: bool = False


def updates_of_item(
    item: plain.Item, shows: Shows, is_announced: bool, read: ReadText
) -> Iterator[Json]:
    """Yield what to show of an item as it is now; `is_announced` says whether its call was."""
    if is_tool_item(item):
        yield from _tool_updates(item, is_announced, read)
        return
    match item["kind"]:
        case "subagent":
            yield _call(
                item["id"], is_announced, title=item["title"], kind="think", status=_status(item)
            )
        case "notice":
            yield _notice(item, shows)
        case "condensation":
            if shows.compaction:
                yield {
                    "sessionUpdate": "compaction_update",
                    "compactionId": item["id"],
                    "status": "completed",
                }
            else:
                yield chunk("reasoning", "Earlier messages were condensed.\n", item["id"])
        case _:
            pass


def updates_of_event(record: plain.Record, cost: plain.Cost | None) -> Iterator[Json]:
    """Yield what to show of an event that is about no item."""
    event = record["event"]
    match event["type"]:
        case "usage.updated" if "purpose" not in event:
            size = event.get("contextSize") or 0
            shown = {"sessionUpdate": "usage_update", "used": event["contextUsed"], "size": size}
            yield {**shown, "cost": cost} if cost else shown
        case "conversation.updated" if "title" in event:
            told = {"title": event["title"], "updatedAt": record["ts"]}
            yield {"sessionUpdate": "session_info_update", **told}
        case "error.raised" if event["error"]["kind"] != "authRequired":
            hint = event["error"].get("hint")
            words = f"{event['error']['message']}{f' ({hint})' if hint else ''}"
            yield chunk("text", f"\n\n[{words}]\n", None)
        case _:
            pass


def replayed(item: plain.Item, shows: Shows, read: ReadText) -> Iterator[Json]:
    """Yield what to show of an item of an earlier run, each message in one piece."""
    match item["kind"]:
        case "userMessage":
            content = {"type": "text", "text": "\n".join(map(_said, item["content"]))}
            shown = {"sessionUpdate": "user_message_chunk", "content": content}
            yield {**shown, "messageId": item["messageId"]}
        case "agentMessage" | "reasoning":
            if (text := item.get("text")) and item.get("reason") != "retried":
                yield chunk(CHANNELS[item["kind"]], text, item["id"])
        case _:
            yield from updates_of_item(item, shows, False, read)
            if is_tool_item(item) and item["tool"] == "finish" and item["status"] == "completed":
                yield chunk("text", text_of(item.get("content", ())), item["id"])


def _said(part: plain.Part) -> str:
    match part["type"]:
        case "text":
            return part["text"]
        case "command" | "skill":
            return f"/{part['name']} {part.get('args') or ''}".rstrip()
        case "image":
            return "[image]"
        case "resourceLink" | "resource" | "selection" | "diagnostics":
            return f"@{part['uri'].rpartition('/')[2]}"


def _tool_updates(item: plain.ToolItem, is_announced: bool, read: ReadText) -> Iterator[Json]:
    if item["kind"] == "plan" and item["status"] == "completed":
        yield {"sessionUpdate": "plan", "entries": [_entry(each) for each in item["entries"]]}
    is_quiet = item["kind"] == "plan" or item["tool"] in _SAYS_ITSELF
    if is_quiet and not is_announced and item["status"] not in {"failed", "rejected"}:
        return
    has_ended = item["status"] in ENDED
    fields: Json = {"status": _status(item), "title": display_escaped(item["title"])}
    if not is_announced:
        kind = "think" if item["tool"] == "delegate" else item["toolKind"]
        fields |= {"kind": kind, "name": item["tool"], "rawInput": item["args"]}
    changes = item.get("changes", ()) if item["kind"] in ("fileChange", "command") else ()
    content = diffs(changes, read)
    if has_ended:
        content += _blocks(item.get("content", ()))
    if content:
        fields["content"] = content
    if places := locations(item):
        fields["locations"] = places
    yield _call(item["id"], is_announced, **fields)


def _call(item_id: str, is_announced: bool, **fields: Any) -> Json:
    kind = "tool_call_update" if is_announced else "tool_call"
    return {"sessionUpdate": kind, "toolCallId": item_id, **fields}


def _status(item: plain.Item) -> str:
    return _STATUS.get(item["status"], "failed")


def _entry(entry: Mapping[str, Any]) -> Json:
    status = entry.get("status", "pending")
    return {
        "content": entry["text"],
        "priority": entry.get("priority", "medium"),
        "status": _PLAN_STATUS.get(status, status),
    }


def _notice(item: plain.NoticeItem, shows: Shows) -> Json:
    title, more = item["title"], item.get("description")
    if shows.notices:
        notice = {"sessionUpdate": "notice", "severity": item["severity"], "title": title}
        return {**notice, "description": more} if more else notice
    return chunk("reasoning", f"{title}: {more}\n" if more else f"{title}\n", item["id"])


def locations(item: plain.ToolItem) -> list[Json]:
    """Return the files that a call is about, with the line counted from 1."""
    found: list[Json] = []
    for location in item.get("locations", ()):
        if (path := path_from_uri(location["uri"])) is not None:
            span = location.get("range")
            line = {} if span is None else {"line": span["start"]["line"] + 1}
            found.append({"path": str(path), **line})
    return found


def diffs(changes: Iterable[plain.FileChange], read: ReadText) -> list[Json]:
    """Return the changes of texts as diffs; what is too long or no text as the patch, if any."""
    return [block for change in changes if (block := _diff(change, read)) is not None]


def _diff(change: plain.FileChange, read: ReadText) -> Json | None:
    path, raw = path_from_uri(change["uri"]), change.get("raw")
    if path is None or raw is not None:
        return None
    before, after = change.get("sha256Before"), change.get("sha256After")
    old = None if before is None else read(before)
    new = "" if after is None else read(after)
    if new is None or (before is not None and old is None):
        return text_block(change.get("patch", "")) if change.get("patch") else None
    if max(len(old or ""), len(new)) > _MAX_DIFF_CHARS:
        return text_block(change.get("patch", ""))
    diff: Json = {"type": "diff", "path": str(path), "newText": new}
    return diff if old is None else {**diff, "oldText": old}


def text_block(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": shorten(text, MAX_TEXT_CHARS)}}


def _blocks(content: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return what a tool gave: all texts in one block, and images."""
    parts = list(content)
    text = text_of(parts)
    images = [
        {"type": "content", "content": {key: part[key] for key in ("type", "mimeType", "data")}}
        for part in parts
        if part.get("type") == "image" and "data" in part
    ]
    return [*([text_block(text)] if text else []), *images]


def text_of(content: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def shown_subject(approval: plain.Approval, read: ReadText) -> list[Json]:
    """Return all of what waits for approval: nobody may allow what they cannot see."""
    subject, content = approval["subject"], list[Json]()
    if subject["kind"] == "fileChange" and not subject.get("git"):
        content = diffs(subject["changes"], read)
    text = display_escaped(whole_text(subject))
    has_all = subject["kind"] == "fileChange" and len(content) == len(subject["changes"])
    if text and not has_all and text not in approval["title"]:
        content.append({"type": "content", "content": {"type": "text", "text": text}})
    reason = approval.get("reason")
    why = f"Risk: {approval['risk']}{f' ({reason})' if reason else ''}"
    return [*content, text_block(display_escaped(why))]


def end_of(turn: plain.Turn) -> tuple[str, str]:
    """Return ACP's reason why a turn stopped, and what to say about it besides; perhaps nothing."""
    stop, status = turn.get("stopReason", ""), turn["status"]
    if status == "interrupted" or stop == "cancelled":
        return "cancelled", ""
    if stop in {"finished", "needsInput"}:
        return "end_turn", turn.get("finalText", "")
    words = f"[Stopped: {_STOPPED[stop]}. Send /continue to go on.]" if stop in _STOPPED else ""
    if stop.startswith("max"):
        return ("max_tokens" if stop == "maxTokens" else "max_turn_requests"), words
    return ("refusal" if stop == "refusal" else "end_turn"), words


def paused_for(reason: str | None) -> str:
    why = f": {_PAUSED[reason]}" if reason in _PAUSED else ""
    return f"[Paused{why}. Send /continue to go on.]"


def pickers(options: Sequence[Any]) -> Json:
    """Return the options of a conversation as ACP's, and the mode for clients of old as well."""
    [mode] = [option for option in options if option.id == "mode"]
    modes = [{"id": choice.value, "name": choice.label} for choice in mode.choices]
    return {
        "modes": {"currentModeId": mode.value, "availableModes": modes},
        "configOptions": [_picker(option) for option in options],
    }


def _picker(option: Any) -> Json:
    category = {"category": option.id} if option.id in {"mode", "model"} else {}
    return {
        "id": option.id,
        "name": option.name,
        "type": "select",
        **category,
        "currentValue": option.value,
        "options": [{"value": choice.value, "name": choice.label} for choice in option.choices],
    }
