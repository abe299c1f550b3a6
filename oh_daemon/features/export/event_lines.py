"""Events as text for people: what `run`, `log` and `demo` print.

Rendering is pure: a record goes in, lines come out. Hidden characters are shown escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from oh_daemon.common.amounts import render_cost
from oh_daemon.common.plain_text import OF_EMOJI, display_escaped
from oh_daemon.features.export.transcript import (
    ENDS,
    PAUSES,
    answer,
    message_text,
    title_of_unknown,
)
from oh_daemon.kernel.ports import is_for_people
from oh_daemon.kernel.state import changes_made
from oh_daemon.protocol import plain

_MAX_OUTPUT_LINES = 12
_STATE = re.compile(r"\[(exit code|waiting for input|still running)\b.*\]")
_WORTH_SAYING_MS = 100
_MARKS = {"completed": "✓", "inProgress": "▸", "pending": "·"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_DECISIONS = {"allow": "allowed", "reject": "rejected"}


class EventPrinter:
    """Prints records in order, each command as it starts: until it ends there is nothing to see.

    A call that was asked about and rejected is not shown again when its item ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._commands: dict[str, str] = {}
        """The commands that were asked for, by item."""
        self._last_command: tuple[str, str] | None = None
        """Item and command, if that command is the last thing printed."""
        self._requests: dict[str, str] = {}
        """What was asked about calls that nobody has allowed, by item."""

    def print(self, record: plain.Record) -> None:
        event = record["event"]
        item_id = record.get("itemId", "")
        match event["type"]:
            case "item.started" if event["item"]["kind"] == "command":
                self._commands[event["item"]["id"]] = event["item"]["command"]
            case "item.updated" if event["status"] == "running":
                self._start(item_id)
                return
            case "approval.requested":
                self._requests[item_id] = event["approval"]["title"]
            case "approval.resolved" if event["decision"]["effect"] == "allow":
                self._requests.pop(item_id, None)
            case _:
                pass
        lines = self._lines(record)
        for line in lines:
            _print_line(line, self._console)
        self._last_command = None if lines else self._last_command

    def _lines(self, record: plain.Record) -> list[Text]:
        event = record["event"]
        if event["type"] != "item.completed":
            return [*render_record(record)]
        item = event["item"]
        command = item["command"] if item["kind"] == "command" else ""
        if item["kind"] == "command" and (item["id"], command) == self._last_command:
            return [*_outcome(item)]
        question = self._requests.get(item["id"], "")
        # The title of a request may be only the beginning of a command.
        if item["status"] == "rejected" and question and command in question:
            return []
        return [*render_record(record)]

    def _start(self, item_id: str) -> None:
        command = self._commands.get(item_id)
        if command is not None:
            _print_line(_start_text(command), self._console)
            self._last_command = (item_id, command)


def _print_line(text: Text, console: Console) -> None:
    """Print one line; on a terminal, what is wrapped keeps its indentation."""
    line_text = text.plain.lstrip("\n")
    indent = " " * (len(line_text) - len(line_text.lstrip()))
    if not (console.is_terminal and line_text.strip()):
        console.print(text, soft_wrap=True)
        return
    before, body = text.divide([len(text) - len(line_text) + len(indent)])
    for line in body.wrap(console, max(console.width - len(indent), 20)):
        line.rstrip()
        console.print(before.append(line), soft_wrap=True)
        before = Text(indent)


def print_lines(text: str, console: Console) -> None:
    """Print a command or a patch unchanged, below what it belongs to."""
    for line in text.splitlines():
        console.print(_text(f"  {line}", _DIFF_STYLES.get(line[:1], "")), soft_wrap=True)


def render_record(record: plain.Record) -> Iterator[Text]:
    """Yield the lines for one record; most kinds of events have none."""
    event = record["event"]
    item = event["item"] if event["type"] == "item.completed" else None
    render = _RENDERERS.get(item["kind"] if item else event["type"], _unknown if item else None)
    if render is not None:
        yield from render(item or event)


def _unknown(item: Mapping[str, Any]) -> Iterator[Text]:
    yield _text(f"\n{title_of_unknown(item)}", "dim")


def _user_message(item: plain.UserMessageItem) -> Iterator[Text]:
    yield _prose(f"\n> {message_text(item)}", "bold")


def _agent_message(item: plain.AgentMessageItem) -> Iterator[Text]:
    if text := answer(item):
        yield _prose(f"\n{text}")


def _plan(item: plain.PlanItem) -> Iterator[Text]:
    yield _text("\nPlan", "bold")
    for entry in item.get("entries", ()):
        yield _prose(f"  {_MARKS[entry['status']]} {entry['text']}")


def _tool_call(item: plain.ToolCallItem) -> Iterator[Text]:
    if item["tool"] in {"ask", "finish"}:
        yield _prose(f"\n{_content(item)}")
    else:
        yield _headline(item)


def _reasoning(_item: plain.ReasoningItem) -> Iterator[Text]:
    """Yield nothing: thoughts are long, and the answer follows."""
    return iter(())


def _subagent(item: plain.SubagentItem) -> Iterator[Text]:
    line = _text(f"\n• {item['agent']}: {item['title']}", "bold")
    how = ": ".join(filter(None, (item["status"], item.get("reason"))))
    style = "not bold dim" if item["status"] == "completed" else "not bold red"
    yield line.append_text(_text(f"  {how}, conversation {item['conversationId'][:12]}", style))


def _notice(item: plain.NoticeItem) -> Iterator[Text]:
    yield _text(f"\n! {item['title']}", "yellow")
    if description := item.get("description"):
        yield _text(f"  {description}", "yellow")


def _condensation(item: plain.CondensationItem) -> Iterator[Text]:
    if item.get("reason") == "nothingToCondense":
        yield _text("\nNothing to condense yet.", "dim")
        return
    if item["status"] != "completed":
        yield _text("\nOlder steps are kept as they are.", "dim")
        return
    before, after = item["tokensBefore"], item["tokensAfter"]
    without = "Long output is cut" if item.get("limits") else "Older output is left out"
    how = "Older steps are summarized" if item.get("summary") else without
    yield _text(f"\n{how}: about {before:,} tokens became {after:,}", "dim")


def _command(item: plain.CommandItem) -> Iterator[Text]:
    yield _start_text(item["command"])
    yield from _outcome(item)


def _start_text(command: str) -> Text:
    return _text(f"\n$ {command}", "bold")


def _outcome(item: plain.CommandItem) -> Iterator[Text]:
    if item["status"] != "completed":
        yield _text(f"  {_failure(item)}", "red")
        return
    output, *more = [p["text"] for p in item["content"] if "text" in p and is_for_people(p)] or [""]
    lines = output.splitlines()
    # The last line may hold the state of the command; older logs have its end there, too.
    state = lines.pop() if lines and _STATE.fullmatch(lines[-1]) else ""
    if len(lines) > _MAX_OUTPUT_LINES:
        half = _MAX_OUTPUT_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]
    for line in lines:
        yield _text(f"  {line}", "dim")
    code = item.get("exitCode")
    result = state.strip("[]") if code is None else f"exit code {code}{_duration(item)}"
    yield _text(f"  {result}", "red" if code else "green" if code == 0 else "yellow")
    for line in "\n".join(more).splitlines():
        yield _text(f"  {line}", "dim")
    yield from _patches(item)


def _changes(item: plain.FileChangeItem) -> Iterator[Text]:
    yield _headline(item)
    yield from _patches(item)


def _patches(item: plain.ToolItem) -> Iterator[Text]:
    for change in changes_made(item):
        for line in change.get("patch", "").splitlines():
            yield _text(f"  {line}", _DIFF_STYLES.get(line[:1], "dim"))
        if change.get("unsaved"):
            yield _text("  in the editor, not saved yet", "yellow")


def _headline(item: plain.ToolItem) -> Text:
    line = _text(f"\n• {item.get('title') or item['tool']}", "bold")
    if item["status"] == "completed":
        return line.append_text(_text(_duration(item), "not bold dim"))
    return line.append_text(_text(f"  {_failure(item)}", "not bold red"))


def _duration(item: plain.ToolItem) -> str:
    took_ms = item.get("durationMs", 0)
    return f", {took_ms / 1000:.1f} s" if took_ms >= _WORTH_SAYING_MS else ""


def _failure(item: plain.ToolItem) -> str:
    first = _content(item).splitlines()[:1]
    # The reason is a word for programs; what stands in the content says it for people.
    return ": ".join([item["status"], *first]) if first else item.get("reason") or item["status"]


def _content(item: plain.ToolItem) -> str:
    return "\n".join(part.get("text", "") for part in item.get("content", ()))


def _error(event: plain.ErrorRaised) -> Iterator[Text]:
    error = event["error"]
    yield _text(f"\n{error['message']}", "red")
    if hint := error.get("hint"):
        yield _text(f"  {hint}", "yellow")


def _approval(event: plain.ApprovalRequested) -> Iterator[Text]:
    approval = event["approval"]
    yield _text(f"\n? {approval['title']}", "bold yellow")
    reason = approval.get("reason")
    why = f": {reason}" if reason else ""
    yield _text(f"  {approval['risk']} risk{why}", "yellow")


def _question(event: plain.InputRequested) -> Iterator[Text]:
    question = event["input"]
    yield _prose(f"\n? {question['prompt']}", "bold yellow")
    for number, choice in enumerate(question.get("choices", ()), 1):
        yield _prose(f"  {number}  {choice}", "yellow")


def _resolution_text(event: plain.ApprovalResolved) -> Iterator[Text]:
    effect = event["decision"]["effect"]
    feedback = event.get("feedback")
    comment = f": {feedback}" if feedback else ""
    yield _text(f"  {_DECISIONS.get(effect, effect)}{comment}", "yellow")


def _turn(event: plain.TurnCompleted) -> Iterator[Text]:
    turn = event["turn"]
    if "result" in turn:
        yield _text(f"\n{json.dumps(turn['result'], indent=2, ensure_ascii=False)}")
    stop = turn.get("stopReason")
    how = ENDS.get(stop, stop) if stop else turn["status"]
    yield _text(f"\n{how} · {render_usage(turn)}", "dim")


def _pause_text(event: plain.TurnPaused) -> Iterator[Text]:
    yield _text(f"\nPaused: {PAUSES.get(event['reason'], event['reason'])}", "yellow")


def _rolled_back(event: plain.ConversationRolledBack) -> Iterator[Text]:
    files = {"restore": ", files too", "keep": ", files stay"}.get(event["files"], "")
    yield _text(f"\nRolled back to event {event['toSeq']}{files}", "yellow")


def _retrying(event: plain.RetryScheduled) -> Iterator[Text]:
    if model := event.get("model"):
        yield _text(f"  {event['error']['message']}; {model} is asked instead", "yellow")
        return
    attempt = f"attempt {event['attempt']} of {event['maxAttempts']}"
    delay = f"in {event['delayMs'] / 1000:.1f} s"
    yield _text(f"  {event['error']['message']}; {attempt} {delay}", "yellow")


def render_usage(turn: Mapping[str, Any]) -> str:
    """Return steps, tokens and cost of a turn; an unknown cost is shown as such."""
    usage: Mapping[str, Any] = turn.get("usage") or {}
    read, cached_note = usage.get("inputTokens", 0), render_cached(usage)
    tokens = f"{read:,} tokens in{cached_note and f' ({cached_note} cached)'}"
    tokens += f", {usage.get('outputTokens', 0):,} out"
    steps = "1 step" if turn["nSteps"] == 1 else f"{turn['nSteps']} steps"
    return f"{steps} · {tokens} · cost {render_cost(usage, 4)}"


def render_cached(usage: Mapping[str, Any]) -> str:
    """Return the share of the prompts that the provider had in its cache; empty for none."""
    share = usage.get("cacheReadTokens", 0) / max(usage.get("inputTokens", 0), 1)
    return f"{min(share, 1):.0%}" if share else ""


def _text(text: str, style: str = "") -> Text:
    return Text(display_escaped(text), style)


def _prose(text: str, style: str = "") -> Text:
    return Text(display_escaped(text, OF_EMOJI), style)


_RENDERERS: dict[str, Callable[[Any], Iterator[Text]]] = {
    "userMessage": _user_message,
    "agentMessage": _agent_message,
    "command": _command,
    "fileChange": _changes,
    "plan": _plan,
    "toolCall": _tool_call,
    "subagent": _subagent,
    "reasoning": _reasoning,
    "notice": _notice,
    "condensation": _condensation,
    "error.raised": _error,
    "approval.requested": _approval,
    "approval.resolved": _resolution_text,
    "input.requested": _question,
    "turn.completed": _turn,
    "turn.paused": _pause_text,
    "conversation.rolledBack": _rolled_back,
    "retry.scheduled": _retrying,
}
"""By the kind of a completed item, or by the type of any other event."""
