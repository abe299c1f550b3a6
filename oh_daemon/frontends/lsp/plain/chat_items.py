"""What a chat file shows of a conversation's events: blocks of Markdown, each with an empty line.

A tool call is one line; what a turn changed is listed at its end. Text of the model, of tools and
of files never stands as a heading of ours (`chat_text.escaped`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.export import transcript
from oh_daemon.features.export.export import code_span, fence, one_line, plan_list, prose
from oh_daemon.frontends.lsp.plain.chat_text import draft, escape_text
from oh_daemon.kernel.approval_requests import before_user
from oh_daemon.kernel.state import State, is_tool_item
from oh_daemon.protocol import plain
from oh_daemon.workspace.paths import path_from_uri

FROM_CHAT = "chat-"
"""How the `clientMessageId` of a message begins that was written in the file."""


def written_here(record: plain.Record) -> str:
    """Return the message that was written in the file; empty for any other record."""
    event = record["event"]
    if event["type"] != "item.completed" or event["item"]["kind"] != "userMessage":
        return ""
    item = event["item"]
    is_here = (item.get("clientMessageId") or "").startswith(FROM_CHAT)
    return transcript.message_text(item) if is_here else ""


def block_of(record: plain.Record, state: State, home: Path) -> str:
    """Return what to add for a record, given the state after it; empty for most records.

    `home` is the folder of the chat file, where relative links start.
    """
    event = record["event"]
    match event["type"]:
        case "item.completed":
            text = _item(event["item"])
        case "approval.requested":
            text = _question_text(event["approval"])
        case "input.requested":
            text = _question(event["input"])
        case "error.raised":
            text = f"> **Error:** {one_line(event['error']['message'])}"
        case "turn.paused":
            text = "> **Paused.** `ohDaemon.resume` goes on; so does a message."
        case "conversation.rolledBack":
            text = "> **Taken back:** the last message and what came of it no longer count."
        case "turn.completed":
            changes = state.turn_changes.get(event["turn"]["id"], {}).values()
            text = _ending(event["turn"], list(changes), home)
        case _:
            text = ""
    return f"{escape_text(text).rstrip()}\n\n" if text else ""


def _item(item: plain.Item) -> str:
    if item["kind"] == "reasoning" or item.get("reason") == "retried":
        return ""
    match item["kind"]:
        case "userMessage":
            quoted_text = "\n".join(
                f"> {line}" for line in transcript.message_text(item).splitlines()
            )
            return f"## You said\n\n{quoted_text}\n\n## Agent"
        case "agentMessage":
            return prose(transcript.answer(item))
        case "notice":
            return f"> **{one_line(transcript.notice_of(item))}**"
        case "condensation":
            return "*Older steps were condensed.*" if item.get("summary") else ""
        case "plan":
            return plan_list(item)
        case "subagent":
            return f"- {one_line(item['agent'])}: {one_line(item['title'])}"
        case _:
            unknown = f"*{one_line(transcript.title_of_unknown(item))}*"
            return _call(item) if is_tool_item(item) else unknown


def _call(item: plain.ToolItem) -> str:
    if transcript.is_spoken(item):
        return prose(transcript.text_of(item["content"]))
    if transcript.is_question(item):
        question, answer, why_none = transcript.question_and_answer(item)
        reply = answer or why_none
        return (
            f"> **Answer:** {one_line(reply)}" if reply else f"> **Question:** {one_line(question)}"
        )
    how = one_line(transcript.outcome(item))
    return f"- {code_span(transcript.title_of_call(item))}{f' — {how}' if how else ''}"


def _question_text(approval: plain.Approval) -> str:
    title, (text, _) = display_escaped(approval["title"]), before_user(approval)
    reason = approval.get("reason")
    why = f" ({one_line(reason)})" if reason else ""
    head = f"> **May it?** {one_line(title).removesuffix('.')}. Risk: {approval['risk']}{why}"
    if text is None:
        return f"{head}. It is too long to be shown here, so it can only be rejected here."
    return head if text in title else f"{head}\n\n{fence(text)}"


def _question(question: plain.InputRequest) -> str:
    choices = "".join(f"\n> - {one_line(choice)}" for choice in question.get("choices", ()))
    return f"> **Question:** {one_line(question['prompt'])}{choices}"


def _ending(turn: plain.Turn, changes: list[plain.FileChange], home: Path) -> str:
    links = "\n".join(_link(change, home) for change in changes)
    return "\n\n".join(filter(None, (links, f"*{one_line(transcript.ending(turn))}*")))


def _link(change: plain.FileChange, home: Path) -> str:
    path = path_from_uri(change["uri"])
    # Links to other folders, too, are relative, as the folder may be another on another machine.
    target = quote(os.path.relpath(path, home)) if path else change["uri"]
    name = one_line(display_escaped(path.name if path else change["uri"])).replace("]", "")
    return f"- [{name}]({target}) +{change['added']} −{change['removed']}"


def unmarked_text(text: str, records: Sequence[plain.Record]) -> str:
    """Return the draft if it was sent and the file does not say so; empty otherwise."""
    words, heading = draft(text), text.rpartition("## You")[0]
    messages = [*filter(None, map(written_here, records))]
    is_sent = bool(messages) and messages[-1] == words
    return words if is_sent and heading.count(words) < messages.count(words) else ""


def missing_of(text: str, records: Sequence[plain.Record], state: State, home: Path) -> str:
    """Return what a file lacks of a conversation: all that comes after the last that it has.

    What the user has removed from the middle stays away.
    """
    position, missing_items = 0, list[str]()
    for record in records:
        block = block_of(record, state, home)
        own_text = written_here(record)
        for part in [own_text] if own_text else block.rstrip().split("\n\n"):
            at = text.find(part, position) if part else -1
            if at >= 0:
                position, missing_items = at + len(part), []
            elif part:
                missing_items.append(block.rstrip() if own_text else part)
    return "\n\n".join(missing_items) + "\n\n" if missing_items else ""
