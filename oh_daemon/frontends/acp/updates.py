"""Records and items of a conversation as ACP's updates: pure functions, the same live and replayed.

A text that streamed is not here, nor is what a turn's end says; `session` and `prompts` have these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from oh_daemon.common.plain_text import display_escaped, shorten, unknown_text
from oh_daemon.features.export import transcript
from oh_daemon.frontends.acp.chunks import chunk
from oh_daemon.kernel.approval_requests import whole_text
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import ENDED, is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.workspace.paths import path_from_uri

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from oh_daemon.frontends.acp import schema as acp
    from oh_daemon.protocol.messages import Option

MAX_TEXT_CHARS = 32 << 10
_MAX_DIFF_CHARS = 1 << 20
_SAYS_ITSELF = frozenset({"ask", "finish"})
"""Tools whose outcome is a text or a question, shown as such."""
_STATUS: Mapping[str, acp.ToolCallStatus] = {
    "pending": "pending",
    "awaitingApproval": "pending",
    "running": "in_progress",
    "completed": "completed",
}
_PLAN_STATUS: Mapping[str, acp.PlanEntryStatus] = {
    "pending": "pending",
    "inProgress": "in_progress",
    "completed": "completed",
}
_NEEDS_NO_WORDS = frozenset({"endTurn", "error", "maxTokens", "refusal"})
"""Ends that ACP has a reason for, or that were shown already."""
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


class SupportedUpdates(Struct, frozen=True):
    """What a client can show."""

    notices: bool = False
    compaction: bool = False


def updates_of_item(
    item: plain.Item, shows: SupportedUpdates, is_announced: bool, read: ReadText
) -> Iterator[acp.SessionUpdate]:
    """Yield what to show of an item as it is now; `is_announced` says whether its call was."""
    if is_tool_item(item):
        yield from _tool_updates(item, is_announced, read)
        return
    match item["kind"]:
        case "subagent":
            title, status = item["title"], _status(item)
            task: acp.ToolCall = {"toolCallId": item["id"], "title": title, "status": status}
            yield _call({**task, "kind": "think"}, is_announced)
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
        case "userMessage" | "agentMessage" | "reasoning":
            pass
        case _:
            yield chunk("reasoning", f"{transcript.title_of_unknown(item)}\n", item["id"])


def updates_of_event(record: plain.Record, cost: plain.Cost | None) -> Iterator[acp.SessionUpdate]:
    """Yield what to show of an event that is about no item."""
    event = record["event"]
    match event["type"]:
        case "usage.updated" if "purpose" not in event:
            size = event.get("contextSize")
            # Without a size there is nothing to compare with, but a cost needs one, too.
            if size or (cost and cost["amount"]):
                usage_update: acp.UsageUpdate = {"used": event["contextUsed"], "size": size or 0}
                if cost:
                    usage_update["cost"] = {"amount": cost["amount"], "currency": cost["currency"]}
                yield {"sessionUpdate": "usage_update", **usage_update}
        case "conversation.updated" if "title" in event:
            title, at = event["title"], record["ts"]
            yield {"sessionUpdate": "session_info_update", "title": title, "updatedAt": at}
        case "error.raised" if event["error"]["kind"] != "authRequired":
            hint = event["error"].get("hint")
            words = f"{event['error']['message']}{f' ({hint})' if hint else ''}"
            yield chunk("text", f"\n\n[{words}]\n", None)
        case _:
            pass


def replay_updates(
    item: plain.Item, shows: SupportedUpdates, read: ReadText
) -> Iterator[acp.SessionUpdate]:
    """Yield what to show of an item of an earlier run, each message in one piece."""
    match item["kind"]:
        case "userMessage":
            text = "\n".join(map(_message_text, item["content"]))
            message_chunk: acp.ContentChunk = {"content": {"type": "text", "text": text}}
            yield {
                "sessionUpdate": "user_message_chunk",
                "messageId": item["messageId"],
                **message_chunk,
            }
        case "agentMessage" | "reasoning":
            text = transcript.answer(item) if item["kind"] == "agentMessage" else item.get("text")
            if text and item.get("reason") != "retried":
                yield chunk(CHANNELS[item["kind"]], text, item["id"])
        case _:
            yield from updates_of_item(item, shows, False, read)
            if is_tool_item(item) and item["tool"] == "finish" and item["status"] == "completed":
                yield chunk("text", transcript.text_of(item.get("content", ())), item["id"])


def _message_text(part: plain.Part) -> str:
    match part["type"]:
        case "text":
            return part["text"]
        case "command" | "skill":
            return f"/{part['name']} {part.get('args') or ''}".rstrip()
        case "image":
            return "[image]"
        case "document":
            return f"[{part.get('name') or 'PDF'}]"
        case "resourceLink" | "resource" | "selection" | "diagnostics":
            return f"@{part['uri'].rpartition('/')[2]}"
    return unknown_text(part["type"])


def _tool_updates(
    item: plain.ToolItem, is_announced: bool, read: ReadText
) -> Iterator[acp.SessionUpdate]:
    if item["kind"] == "plan" and item["status"] == "completed":
        yield {"sessionUpdate": "plan", "entries": [_entry(each) for each in item["entries"]]}
    is_quiet = item["kind"] == "plan" or item["tool"] in _SAYS_ITSELF
    if is_quiet and not is_announced and item["status"] not in {"failed", "rejected"}:
        return
    has_ended = item["status"] in ENDED
    title = display_escaped(item["title"])
    call: acp.ToolCall = {"toolCallId": item["id"], "title": title, "status": _status(item)}
    if not is_announced:
        call["kind"] = "think" if item["tool"] == "delegate" else item["toolKind"]
        call["name"], call["rawInput"] = item["tool"], item["args"]
    changes = item.get("changes", ()) if item["kind"] in ("fileChange", "command") else ()
    content = diffs(changes, read)
    if has_ended:
        content += _blocks(item.get("content", ()))
        if item["kind"] == "command" and item.get("exitCode"):
            content.append(text_block(transcript.outcome(item)))
    if content:
        call["content"] = content
    if places := locations(item):
        call["locations"] = places
    yield _call(call, is_announced)


def _call(call: acp.ToolCall, is_announced: bool) -> acp.SessionUpdate:
    """Announce the call or, if it was announced, say how it is now."""
    if is_announced:
        return {"sessionUpdate": "tool_call_update", **call}
    return {"sessionUpdate": "tool_call", **call}


def _status(item: plain.Item) -> acp.ToolCallStatus:
    return _STATUS.get(item["status"], "failed")


def _entry(entry: plain.PlanEntry) -> acp.PlanEntry:
    status, priority = _PLAN_STATUS[entry["status"]], entry["priority"]
    return {"content": entry["text"], "priority": priority, "status": status}


def _notice(item: plain.NoticeItem, shows: SupportedUpdates) -> acp.SessionUpdate:
    title, more = item["title"], item.get("description")
    if not shows.notices:
        return chunk("reasoning", f"{title}: {more}\n" if more else f"{title}\n", item["id"])
    notice: acp.Notice = {"severity": item["severity"], "title": title}
    if more:
        notice["description"] = more
    return {"sessionUpdate": "notice", **notice}


def locations(item: plain.ToolItem) -> list[acp.ToolCallLocation]:
    """Return the files that a call is about, with the line counted from 1."""
    places: list[acp.ToolCallLocation] = []
    for location in item.get("locations", ()):
        if (path := path_from_uri(location["uri"])) is not None:
            place: acp.ToolCallLocation = {"path": str(path)}
            if (span := location.get("range")) is not None:
                place["line"] = span["start"]["line"] + 1
            places.append(place)
    return places


def diffs(changes: Iterable[plain.FileChange], read: ReadText) -> list[acp.ToolCallContent]:
    """Return the changes of texts as diffs; what is too long or no text as the patch, if any."""
    return [block for change in changes if (block := _diff(change, read)) is not None]


def _diff(change: plain.FileChange, read: ReadText) -> acp.ToolCallContent | None:
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
    diff: acp.Diff = {"path": str(path), "newText": new}
    if old is not None:
        diff["oldText"] = old
    return {"type": "diff", **diff}


def text_block(text: str) -> acp.ToolCallContent:
    return {"type": "content", "content": {"type": "text", "text": shorten(text, MAX_TEXT_CHARS)}}


def _blocks(content: Iterable[Mapping[str, Any]]) -> list[acp.ToolCallContent]:
    """Return what a tool gave: all texts in one block, and images."""
    parts = list(content)
    blocks = [text_block(text)] if (text := transcript.text_of(parts)) else []
    for part in parts:
        if part.get("type") == "image" and "data" in part:
            image: acp.ImageContent = {"data": part["data"], "mimeType": part["mimeType"]}
            blocks.append({"type": "content", "content": {"type": "image", **image}})
    return blocks


def shown_subject(approval: plain.Approval, read: ReadText) -> list[acp.ToolCallContent]:
    """Return all of what waits for approval: nobody may allow what they cannot see."""
    subject = approval["subject"]
    content: list[acp.ToolCallContent] = []
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
    stop, status = turn.get("stopReason"), turn["status"]
    if status == "interrupted" or stop == "cancelled":
        return "cancelled", ""
    if stop in {"finished", "needsInput"}:
        return "end_turn", turn.get("finalText", "")
    words = ""
    if stop is not None and stop not in _NEEDS_NO_WORDS:
        words = f"[{transcript.ENDS.get(stop, stop)}. Send /continue to go on.]"
    if stop is not None and stop.startswith("max"):
        return ("max_tokens" if stop == "maxTokens" else "max_turn_requests"), words
    return ("refusal" if stop == "refusal" else "end_turn"), words


def paused_for(reason: str | None) -> str:
    why = f": {transcript.PAUSES[reason]}" if reason in transcript.PAUSES else ""
    return f"[Paused{why}. Send /continue to go on.]"


def pickers(options: Sequence[Option]) -> Json:
    """Return the options of a conversation as ACP's, and the mode for clients of old as well."""
    [mode] = [option for option in options if option.id == "mode"]
    modes = [{"id": choice.value, "name": choice.label} for choice in mode.choices]
    return {
        "modes": {"currentModeId": mode.value, "availableModes": modes},
        "configOptions": [_picker(option) for option in options],
    }


def _picker(option: Option) -> acp.SessionConfigOption:
    choices: list[acp.SessionConfigSelectOption] = [
        {"value": choice.value, "name": choice.label} for choice in option.choices
    ]
    base: acp.SessionConfigOptionBase = {"id": option.id, "name": option.name}
    if option.id in {"mode", "model"}:
        base["category"] = option.id
    if option.id == "effort":
        base["category"] = "thought_level"
    return {"type": "select", "currentValue": option.value, "options": choices, **base}
