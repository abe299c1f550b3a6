"""Events as text for people: what `run`, `log` and `demo` print.

Pure: a record goes in, lines come out. Hidden characters are shown escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.text import Text

from oh_daemon.core.ports import Json
from oh_daemon.core.risk import display_escaped

_MAX_OUTPUT_LINES = 12
_WORTH_SAYING_MS = 100
_MARKS = {"completed": "✓", "inProgress": "▸", "pending": "·"}
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def render_record(record: Json) -> Iterator[Text]:
    """The lines for one record; most kinds of events have none."""
    event = record["event"]
    render = _RENDERERS.get(event["type"])
    if render is not None:
        yield from render(event)


def _item(event: Json) -> Iterator[Text]:
    item = event["item"]
    render = _ITEM_RENDERERS.get(item["kind"])
    if render is not None:
        yield from render(item)


def _user_message(item: Json) -> Iterator[Text]:
    yield Text(f"\n> {display_escaped(_content(item))}", "bold")


def _agent_message(item: Json) -> Iterator[Text]:
    if item.get("text"):
        yield Text(f"\n{display_escaped(item['text'])}")


def _plan(item: Json) -> Iterator[Text]:
    yield Text("\nPlan", "bold")
    for entry in item.get("entries", ()):
        yield Text(f"  {_MARKS[entry['status']]} {display_escaped(entry['text'])}")


def _tool_call(item: Json) -> Iterator[Text]:
    if item["tool"] == "finish":
        yield Text(f"\n{display_escaped(_content(item))}")
    else:
        yield _headline(item)


def _notice(item: Json) -> Iterator[Text]:
    yield Text(f"! {display_escaped(item['title'])}", "yellow")


def _command(item: Json) -> Iterator[Text]:
    yield Text(f"\n$ {display_escaped(item['command'])}", "bold")
    lines = _content(item).splitlines()
    if len(lines) > _MAX_OUTPUT_LINES:
        half = _MAX_OUTPUT_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]
    for line in lines:
        yield Text(f"  {display_escaped(line)}", "dim")
    yield _ending(item, f"exit code {item['exitCode']}" if "exitCode" in item else "")


def _changes(item: Json) -> Iterator[Text]:
    yield _headline(item)
    for change in item.get("changes", ()) if item["status"] == "completed" else ():
        for line in change.get("patch", "").splitlines():
            yield Text(f"  {display_escaped(line)}", _DIFF_STYLES.get(line[:1], "dim"))
        if change.get("unsaved"):
            yield Text("  in the editor, not saved yet", "yellow")


def _headline(item: Json) -> Text:
    ending = _ending(item, "")
    return Text(f"\n• {display_escaped(item.get('title') or item['tool'])}  ", "bold").append(
        ending
    )


def _ending(item: Json, said: str) -> Text:
    took = (
        f"{item['durationMs'] / 1000:.1f} s"
        if item.get("durationMs", 0) >= _WORTH_SAYING_MS
        else ""
    )
    if item["status"] == "completed":
        failed = item.get("exitCode") not in (None, 0)
        text = ", ".join(filter(None, (said, took)))
        return Text(f"  {text}" if said else text, "red" if failed else "dim")
    why = item.get("reason") or ""
    first = _content(item).splitlines()[:1]
    return Text(f"  {item['status']} {why} {' '.join(first)}".rstrip(), "red")


def _content(item: Json) -> str:
    return "\n".join(part.get("text", "") for part in item.get("content", ()))


def _error(event: Json) -> Iterator[Text]:
    error = event["error"]
    yield Text(f"\n{display_escaped(error['message'])}", "red")
    if error.get("hint"):
        yield Text(f"  {display_escaped(error['hint'])}", "yellow")


def _approval(event: Json) -> Iterator[Text]:
    approval = event["approval"]
    yield Text(f"\n? {display_escaped(approval['title'])}", "bold yellow")
    yield Text(
        f"  {approval['risk']} risk. {display_escaped(approval.get('reason') or '')}", "yellow"
    )


def _resolved(event: Json) -> Iterator[Text]:
    feedback = event.get("feedback")
    said = f": {display_escaped(feedback)}" if feedback else ""
    yield Text(f"  {event['decision']['effect']} (by {event['by']}){said}", "yellow")


def _turn(event: Json) -> Iterator[Text]:
    turn = event["turn"]
    yield Text(f"\n{turn['status']} ({turn['stopReason']}), {render_usage(turn)}", "dim")


def _paused(event: Json) -> Iterator[Text]:
    yield Text(f"\npaused: {event['reason']}", "yellow")


def _retrying(event: Json) -> Iterator[Text]:
    yield Text(
        f"  {display_escaped(event['error']['message'])}; attempt {event['attempt']} of "
        f"{event['maxAttempts']} in {event['delayMs'] / 1000:.1f} s",
        "yellow",
    )


def render_usage(turn: Json) -> str:
    """Steps, tokens and cost of a turn; an unknown cost is said to be unknown."""
    usage: Json = turn.get("usage") or {}
    tokens = f"{usage.get('inputTokens', 0):,} tokens in, {usage.get('outputTokens', 0):,} out"
    cost = usage.get("cost")
    price = f"${cost['amount']:.4f}" if cost else "unknown"
    return f"{turn['nSteps']} steps, {tokens}, cost {price}"


_ITEM_RENDERERS: dict[str, Callable[[Json], Iterator[Text]]] = {
    "userMessage": _user_message,
    "agentMessage": _agent_message,
    "command": _command,
    "fileChange": _changes,
    "plan": _plan,
    "toolCall": _tool_call,
    "notice": _notice,
}
_RENDERERS: dict[str, Callable[[Json], Iterator[Text]]] = {
    "item.completed": _item,
    "error.raised": _error,
    "approval.requested": _approval,
    "approval.resolved": _resolved,
    "turn.completed": _turn,
    "turn.paused": _paused,
    "retry.scheduled": _retrying,
}
