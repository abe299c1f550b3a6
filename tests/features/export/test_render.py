"""Events as text for people."""

import io
from typing import Any, get_args

import pytest
from rich.console import Console

from oh_daemon.common.plain_text import is_hidden
from oh_daemon.features.export.event_lines import EventPrinter
from oh_daemon.protocol.items import StopReason
from oh_daemon.protocol.status import PauseReason


def print_records(*records: Any) -> str:
    out = io.StringIO()
    printer = EventPrinter(Console(file=out, width=200))
    for record in records:
        printer.print(record)
    return out.getvalue()


def approval_request(item_id: str) -> Any:
    item = {"id": item_id, "kind": "command", "command": f"make {item_id}"}
    return {"event": {"type": "item.started", "item": item}}


def item_start(item_id: str) -> Any:
    return {"itemId": item_id, "event": {"type": "item.updated", "status": "running"}}


def item_end(item_id: str, command: str | None = None, state: str = "") -> Any:
    item: Any = {"id": item_id, "kind": "command", "command": command or f"make {item_id}"}
    content = [{"text": f"made {item_id}{state}"}]
    item |= {"status": "completed", "exitCode": 0, "content": content}
    return {"event": {"type": "item.completed", "item": item}}


def test_what_comes_of_a_command_is_below_it_also_when_others_ran_beside_it() -> None:
    request_text = print_records(approval_request("a"), item_start("a"), item_end("a"))
    assert request_text == "\n$ make a\n  made a\n  exit code 0\n"
    assert print_records(item_end("a")) == request_text, "of a log that was cut"
    assert print_records(item_end("a", state="\n[exit code 0, 0.1 s, in /w]")) == request_text, (
        "of an older log"
    )
    both = print_records(
        approval_request("a"),
        approval_request("b"),
        item_start("a"),
        item_start("b"),
        item_end("a"),
        item_end("b"),
    )
    assert both == f"\n$ make a\n\n$ make b\n{request_text}{print_records(item_end('b'))}"
    full_text = print_records(approval_request("a"), item_start("a"), item_end("a", "make c"))
    assert full_text.startswith("\n$ make a\n\n$ make c\n")


@pytest.mark.parametrize("reason", get_args(StopReason))
def test_every_end_of_a_turn_has_words_for_people(reason: StopReason) -> None:
    turn = {"stopReason": reason, "status": "completed", "nSteps": 1}
    text = print_records({"event": {"type": "turn.completed", "turn": turn}})
    assert not text.startswith(f"\n{reason} ")
    assert "Completed" not in text


def test_a_turn_of_another_programs_log_may_lack_the_reason_for_its_end() -> None:
    turn = {"status": "failed", "nSteps": 1}
    text = print_records({"event": {"type": "turn.completed", "turn": turn}})
    assert text.startswith("\nfailed · 1 step")


@pytest.mark.parametrize("reason", get_args(PauseReason))
def test_every_pause_has_words_for_people(reason: PauseReason) -> None:
    text = print_records({"event": {"type": "turn.paused", "reason": reason}})
    assert text.startswith("\nPaused: ")
    assert f" {reason}" not in text


def test_a_call_that_failed_says_so_in_words_for_people() -> None:
    item: Any = {"id": "i", "kind": "toolCall", "tool": "probe", "status": "failed"}
    item["reason"] = "unknownTool"
    record = {"event": {"type": "item.completed", "item": item}}
    assert print_records(record) == "\n• probe  unknownTool\n"
    item["content"] = [{"text": "There is no tool 'probe'.\nMore."}]
    assert print_records(record) == "\n• probe  failed: There is no tool 'probe'.\n"


def test_an_answer_that_was_cut_off_says_so_outside_of_its_code() -> None:
    item: Any = {
        "id": "a",
        "kind": "agentMessage",
        "text": "Like this:\n```py\nx = 1",
        "status": "cancelled",
    }
    record: Any = {"event": {"type": "item.completed", "item": item | {"reason": "outcomeUnknown"}}}
    mark = "*Cut off: the daemon ended while it wrote this answer.*"
    assert print_records(record) == f"\nLike this:\n```py\nx = 1\n```\n\n{mark}\n"
    item["reason"] = "interrupted"
    assert "Cut off" not in print_records({"event": {"type": "item.completed", "item": item}})


HOSTILE = "a\x1b[2J\x1b]0;t\x07\r\x9b\u202eb\u2066\u200b\x00"
CONTENT = [{"type": "text", "text": HOSTILE}]
ITEM: Any = {"id": HOSTILE, "status": "completed", "title": HOSTILE, "content": CONTENT}
CALL: Any = {**ITEM, "kind": "toolCall", "tool": HOSTILE, "args": {}}


@pytest.mark.parametrize(
    "item",
    [
        {**CALL, "status": "completed"},
        {**CALL, "status": "failed", "reason": HOSTILE},
        {**CALL, "status": HOSTILE, "reason": HOSTILE, "content": []},
        {**CALL, "status": "completed", "tool": "ask"},
        {**ITEM, "kind": "command", "command": HOSTILE, "status": "completed", "exitCode": 0},
        {
            **ITEM,
            "kind": "subagent",
            "agent": HOSTILE,
            "conversationId": HOSTILE,
            "reason": HOSTILE,
        },
        {**ITEM, "kind": "notice", "description": HOSTILE},
        {**ITEM, "kind": "agentMessage", "text": HOSTILE, "status": "completed"},
        {**ITEM, "kind": "userMessage"},
        {**ITEM, "kind": "plan", "entries": [{"status": "pending", "text": HOSTILE}]},
    ],
)
def test_text_of_others_controls_no_terminal(item: Any) -> None:
    """A server writes titles and results, and another program may have written the log."""
    text = print_records({"event": {"type": "item.completed", "item": item}})
    assert "\\u{202e}" in text
    assert {char for char in text if is_hidden(char) and char not in " \n"} == set()
