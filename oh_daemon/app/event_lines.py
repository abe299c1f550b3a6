"""Events as text for people: what `run`, `log` and `demo` print.

Rendering is pure: a record goes in, lines come out. Hidden characters are shown escaped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from oh_daemon.contract.items import PauseReason, StopReason
from oh_daemon.core.plain_text import display_escaped
from oh_daemon.core.ports import Json

_MAX_OUTPUT_LINES = 12
_WORTH_SAYING_MS = 100
_OF_EMOJI = "\ufe0f\u200d"
"""Hidden characters inside many emoji: they stay in prose and are shown in commands."""
_MARKS = {"completed": "✓", "inProgress": "▸", "pending": "·"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_DECISIONS = {"allow": "allowed", "reject": "rejected"}
_ENDS: dict[StopReason, str] = {
    "finished": "Done",
    "endTurn": "Done",
    "needsInput": "Needs your answer",
    "maxSteps": "Stopped at the limit of steps",
    "maxCostUsd": "Stopped at the limit of cost",
    "maxCostUsdPerConversation": "Stopped at the limit of cost of this conversation",
    "maxCostUsdPerDay": "Stopped at the limit of cost of this day",
    "stuck": "Stopped: the agent went in circles",
    "maxTokens": "Stopped: the answer was cut",
    "toolErrors": "Stopped: too many calls were wrong",
    "noAnswer": "Stopped: the model gave no answer",
    "refusal": "Stopped: the model refused to answer",
    "hook": "Stopped by a hook",
    "cancelled": "Interrupted",
    "error": "Failed",
}

_PAUSES: dict[PauseReason, str] = {
    "user": "on request",
    "budget": "a limit of cost or steps is reached",
    "network": "the model cannot be reached",
    "rateLimit": "the provider takes no more requests for now",
    "storage": "the log cannot be written",
    "daemonRestarted": "its process had ended",
    "stuck": "the agent went in circles",
}


class Progress:
    """Prints records in order, each command as it starts: until it ends there is nothing to see.

    A call that was asked about and rejected is not shown again when its item ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._commands: dict[str, str] = {}
        """The commands that were asked for, by item."""
        self._shown: tuple[str, str] | None = None
        """Item and command, if that command is the last thing printed."""
        self._asked: dict[str, str] = {}
        """What was asked about calls that nobody has allowed, by item."""

    def print(self, record: Json) -> None:
        event = record["event"]
        item: Json = event.get("item") or {}
        match event["type"]:
            case "item.started" if item["kind"] == "command":
                self._commands[item["id"]] = item["command"]
            case "item.updated" if event.get("status") == "running":
                self._start(record["itemId"])
                return
            case "approval.requested":
                self._asked[record["itemId"]] = event["approval"]["title"]
            case "approval.resolved" if event["decision"]["effect"] == "allow":
                self._asked.pop(record["itemId"], None)
            case _:
                pass
        lines = self._lines(record, item)
        for line in lines:
            _print_line(line, self._console)
        self._shown = None if lines else self._shown

    def _lines(self, record: Json, item: Json) -> list[Text]:
        if (item.get("id"), item.get("command")) == self._shown:
            return [*_outcome(item)]
        asked = self._asked.get(item.get("id", ""), "")
        # The title of a request may be only the beginning of a command.
        if item.get("status") == "rejected" and asked and item.get("command", "") in asked:
            return []
        return [*render_record(record)]

    def _start(self, item_id: str) -> None:
        command = self._commands.get(item_id)
        if command is not None:
            _print_line(_started(command), self._console)
            self._shown = (item_id, command)


def _print_line(text: Text, console: Console) -> None:
    """Print one line; on a terminal, what is wrapped keeps its indentation."""
    plain = text.plain.lstrip("\n")
    indent = " " * (len(plain) - len(plain.lstrip()))
    if not (console.is_terminal and plain.strip()):
        console.print(text, soft_wrap=True)
        return
    before, body = text.divide([len(text) - len(plain) + len(indent)])
    for line in body.wrap(console, max(console.width - len(indent), 20)):
        line.rstrip()
        console.print(before.append(line), soft_wrap=True)
        before = Text(indent)


def print_lines(text: str, console: Console) -> None:
    """Print a command or a patch unchanged, below what it belongs to."""
    for line in text.splitlines():
        console.print(_text(f"  {line}", _DIFF_STYLES.get(line[:1], "")), soft_wrap=True)


def render_record(record: Json) -> Iterator[Text]:
    """Yield the lines for one record; most kinds of events have none."""
    event = record["event"]
    kind = event["item"]["kind"] if event["type"] == "item.completed" else event["type"]
    render = _RENDERERS.get(kind)
    if render is not None:
        yield from render(event.get("item", event))


def _user_message(item: Json) -> Iterator[Text]:
    yield _prose(f"\n> {_content(item)}", "bold")


def _agent_message(item: Json) -> Iterator[Text]:
    if item.get("text"):
        yield _prose(f"\n{item['text']}")


def _plan(item: Json) -> Iterator[Text]:
    yield _text("\nPlan", "bold")
    for entry in item.get("entries", ()):
        yield _prose(f"  {_MARKS[entry['status']]} {entry['text']}")


def _tool_call(item: Json) -> Iterator[Text]:
    if item["tool"] in {"ask", "finish"}:
        yield _prose(f"\n{_content(item)}")
    else:
        yield _headline(item)


def _subagent(item: Json) -> Iterator[Text]:
    line = _text(f"\n• {item['agent']}: {item['title']}", "bold")
    how = ": ".join(filter(None, (item["status"], item.get("reason"))))
    style = "not bold dim" if item["status"] == "completed" else "not bold red"
    yield line.append(f"  {how}, conversation {item['conversationId'][:12]}", style)


def _notice(item: Json) -> Iterator[Text]:
    yield _text(f"\n! {item['title']}", "yellow")
    if item.get("description"):
        yield _text(f"  {item['description']}", "yellow")


def _condensation(item: Json) -> Iterator[Text]:
    if item.get("reason") == "nothingToCondense":
        yield _text("\nNothing to condense yet.", "dim")
        return
    if item["status"] != "completed":
        yield _text("\nOlder steps are kept as they are.", "dim")
        return
    before, after = item["tokensBefore"], item["tokensAfter"]
    how = "Older steps are summarized" if item.get("summary") else "Older output is left out"
    yield _text(f"\n{how}: about {before:,} tokens became {after:,}", "dim")


def _command(item: Json) -> Iterator[Text]:
    yield _started(item["command"])
    yield from _outcome(item)


def _started(command: str) -> Text:
    return _text(f"\n$ {command}", "bold")


def _outcome(item: Json) -> Iterator[Text]:
    if item["status"] != "completed":
        yield _text(f"  {_failure(item)}", "red")
        return
    # The last line holds the state of the command, in brackets.
    *lines, state = _content(item).splitlines() or [""]
    if len(lines) > _MAX_OUTPUT_LINES:
        half = _MAX_OUTPUT_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]
    for line in lines:
        yield _text(f"  {line}", "dim")
    code = item.get("exitCode")
    said = state.strip("[]") if code is None else f"exit code {code}{_duration(item)}"
    yield _text(f"  {said}", "red" if code else "green" if code == 0 else "yellow")


def _changes(item: Json) -> Iterator[Text]:
    yield _headline(item)
    for change in item.get("changes", ()) if item["status"] == "completed" else ():
        for line in change.get("patch", "").splitlines():
            yield _text(f"  {line}", _DIFF_STYLES.get(line[:1], "dim"))
        if change.get("unsaved"):
            yield _text("  in the editor, not saved yet", "yellow")


def _headline(item: Json) -> Text:
    line = _text(f"\n• {item.get('title') or item['tool']}", "bold")
    if item["status"] == "completed":
        return line.append(_duration(item), "not bold dim")
    return line.append_text(_text(f"  {_failure(item)}", "not bold red"))


def _duration(item: Json) -> str:
    took_ms = item.get("durationMs", 0)
    return f", {took_ms / 1000:.1f} s" if took_ms >= _WORTH_SAYING_MS else ""


def _failure(item: Json) -> str:
    first = _content(item).splitlines()[:1]
    # The reason is a word for programs; what stands in the content says it for people.
    return ": ".join([item["status"], *first]) if first else item.get("reason") or item["status"]


def _content(item: Json) -> str:
    return "\n".join(part.get("text", "") for part in item.get("content", ()))


def _error(event: Json) -> Iterator[Text]:
    error = event["error"]
    yield _text(f"\n{error['message']}", "red")
    if error.get("hint"):
        yield _text(f"  {error['hint']}", "yellow")


def _approval(event: Json) -> Iterator[Text]:
    approval = event["approval"]
    yield _text(f"\n? {approval['title']}", "bold yellow")
    reason = f": {approval['reason']}" if approval.get("reason") else ""
    yield _text(f"  {approval['risk']} risk{reason}", "yellow")


def _question(event: Json) -> Iterator[Text]:
    question = event["input"]
    yield _prose(f"\n? {question['prompt']}", "bold yellow")
    for number, choice in enumerate(question.get("choices", ()), 1):
        yield _prose(f"  {number}  {choice}", "yellow")


def _resolved(event: Json) -> Iterator[Text]:
    effect = event["decision"]["effect"]
    said = f": {event['feedback']}" if event.get("feedback") else ""
    yield _text(f"  {_DECISIONS.get(effect, effect)}{said}", "yellow")


def _turn(event: Json) -> Iterator[Text]:
    turn = event["turn"]
    if "result" in turn:
        yield _text(f"\n{json.dumps(turn['result'], indent=2, ensure_ascii=False)}")
    stop = turn.get("stopReason", turn["status"])
    how = _ENDS.get(stop, stop)
    yield _text(f"\n{how} · {render_usage(turn)}", "dim")


def _paused(event: Json) -> Iterator[Text]:
    yield _text(f"\nPaused: {_PAUSES.get(event['reason'], event['reason'])}", "yellow")


def _rolled_back(event: Json) -> Iterator[Text]:
    files = {"restore": ", files too", "keep": ", files stay"}.get(event["files"], "")
    yield _text(f"\nRolled back to event {event['toSeq']}{files}", "yellow")


def _retrying(event: Json) -> Iterator[Text]:
    if event.get("model"):
        yield _text(f"  {event['error']['message']}; {event['model']} is asked instead", "yellow")
        return
    attempt = f"attempt {event['attempt']} of {event['maxAttempts']}"
    delay = f"in {event['delayMs'] / 1000:.1f} s"
    yield _text(f"  {event['error']['message']}; {attempt} {delay}", "yellow")


def render_usage(turn: Json) -> str:
    """Return steps, tokens and cost of a turn; an unknown cost is shown as such."""
    usage: Json = turn.get("usage") or {}
    read, cached = usage.get("inputTokens", 0), render_cached(usage)
    tokens = f"{read:,} tokens in{cached and f' ({cached} cached)'}"
    tokens += f", {usage.get('outputTokens', 0):,} out"
    cost = usage.get("cost")
    price = f"${cost['amount']:.4f}" if cost else "unknown"
    steps = "1 step" if turn["nSteps"] == 1 else f"{turn['nSteps']} steps"
    return f"{steps} · {tokens} · cost {price}"


def render_cached(usage: Json) -> str:
    """Return the share of the prompts that the provider had in its cache; empty for none."""
    share = usage.get("cacheReadTokens", 0) / max(usage.get("inputTokens", 0), 1)
    return f"{min(share, 1):.0%}" if share else ""


def _text(text: str, style: str = "") -> Text:
    return Text(display_escaped(text), style)


def _prose(text: str, style: str = "") -> Text:
    return Text(display_escaped(text, _OF_EMOJI), style)


_RENDERERS: dict[str, Callable[[Json], Iterator[Text]]] = {
    "userMessage": _user_message,
    "agentMessage": _agent_message,
    "command": _command,
    "fileChange": _changes,
    "plan": _plan,
    "toolCall": _tool_call,
    "subagent": _subagent,
    "notice": _notice,
    "condensation": _condensation,
    "error.raised": _error,
    "approval.requested": _approval,
    "approval.resolved": _resolved,
    "input.requested": _question,
    "turn.completed": _turn,
    "turn.paused": _paused,
    "conversation.rolledBack": _rolled_back,
    "retry.scheduled": _retrying,
}
"""By the kind of a completed item, or by the type of any other event."""
