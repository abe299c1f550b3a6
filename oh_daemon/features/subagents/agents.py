"""Agents that a conversation can delegate to, what they inherit, and what comes of their turns.

The files that define some use the format of other agents, whose usual names of tools are
understood too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from oh_daemon.common.front_matter import parse_front_matter
from oh_daemon.common.plain_text import shorten
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import State
from oh_daemon.protocol.settings import stricter

AgentSource = Literal["builtin", "project", "user"]
_READING = frozenset(
    {
        *("read", "grep", "glob", "ls", "list", "diagnostics", "lookup", "notebookread"),
        *("todo", "todowrite", "think", "finish", "websearch", "webfetch"),
    }
)
"""Names, in lower case, of tools that change nothing."""
_OWN_NAMES = {
    **dict.fromkeys(("read", "edit", "write", "multiedit", "notebookread", "notebookedit"), "edit"),
    "bash": "terminal",
    "ls": "list",
    "todowrite": "todo",
}
"""Names of tools in such files, in lower case, and our names for the same tools."""
_MAX_DESCRIPTION = 500


class NamedAgent(Struct, frozen=True):
    """An agent. `tools` are names, None for all; with `only_reads` it works in mode plan."""

    name: str
    description: str
    instructions: str = ""
    tools: tuple[str, ...] | None = None
    only_reads: bool = False
    model: str | None = None
    source: AgentSource = "builtin"
    path: str | None = None


BUILTIN = (
    NamedAgent(
        "explore",
        "Finds out how things are: searches and reads code, runs commands that only read, and "
        "reports with files and lines. Changes nothing.",
        "Read as little as answers the question; report what you found with paths and lines, and "
        "what you looked for and did not find.",
        tools=("edit", "grep", "glob", "list", "diagnostics", "lookup", "terminal", "think"),
        only_reads=True,
    ),
    NamedAgent("general", "Does a whole task on its own, with your tools."),
)


def parse_agent(text: str, stem: str, source: AgentSource, path: str) -> NamedAgent | None:
    """Return the agent that a file defines, or None without a description or instructions."""
    values, body = parse_front_matter(text)
    name, model = (values.get(key) for key in ("name", "model"))
    description = " ".join(str(values.get("description", "")).split())
    if not description or not body.strip():
        return None
    names = _names(values.get("tools", ""))
    return NamedAgent(
        name=name.strip() if name and isinstance(name, str) else stem,
        description=description[:_MAX_DESCRIPTION],
        instructions=body.strip(),
        tools=None if names is None else tuple(dict.fromkeys(map(_own_name, names))),
        only_reads=names is not None and {name.lower() for name in names} <= _READING,
        model=model if isinstance(model, str) else None,
        source=source,
        path=path,
    )


def _names(value: str | list[str]) -> list[str] | None:
    """Return the tools of a list or of a text with commas; None when all are meant."""
    items = value.split(",") if isinstance(value, str) else value
    names = [name for each in items if (name := each.partition("(")[0].strip())]
    return None if names in ([], ["*"]) else names


def _own_name(name: str) -> str:
    return _OWN_NAMES.get(name.lower(), name.lower() if name.lower() in _READING else name)


def choose_agents(candidates: Iterable[NamedAgent]) -> dict[str, NamedAgent]:
    """Return agents by name, sorted; of those with the same name the first in `found` counts."""
    agents: dict[str, NamedAgent] = {}
    for agent in (*candidates, *BUILTIN):
        agents.setdefault(agent.name, agent)
    return dict(sorted(agents.items()))


MAX_RESULT_CHARS = 16 << 10
NOT_FOR_SUB_AGENTS = frozenset({"delegate", "ask"})
"""Tools that sub-agents lack: they cannot delegate, and ask the user by approvals only."""
_REASONS = {
    "maxSteps": "it reached its limit of steps",
    "maxCostUsd": "the limit of cost was reached",
    "maxCostUsdPerConversation": "the limit of cost was reached",
    "maxCostUsdPerDay": "the limit of cost of this day was reached",
    "maxMinutes": "it reached its limit of time",
    "needsInput": "it asked a question instead of finishing",
    "stuck": "it went in circles",
    "noResult": "it ended without the result that was asked for",
    "noAnswer": "the model gave no answer",
    "cancelled": "it was interrupted",
    "user": "it was paused by the user",
    "notStarted": "the turn ended before it began",
}


class SubAgentTask(Struct, frozen=True):
    """A task. With `resume`, the id of a sub-agent's conversation, `text` is its next message."""

    text: str
    title: str
    agent: str
    resume: str | None = None
    result_schema: Json | None = None


class TaskOutcome(Struct, frozen=True):
    """How a task ended; `text` is the last that the sub-agent said."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str | None
    text: str
    result: Any = None
    """JSON that fits the task's schema."""


def inherited_options(own_mode: str | None, parent: Mapping[str, str]) -> dict[str, str]:
    """Return a sub-agent's mode and approval: the parent's, but its own mode if stricter."""
    mode = stricter("mode", parent["mode"], own_mode or parent["mode"])
    return {"mode": mode, "approval": parent["approval"]}


def outcome_of(turn: Mapping[str, Any], state: State) -> TaskOutcome:
    """Return what came of a turn that ended, or was paused for the `reason` in it."""
    reason = turn.get("stopReason") or turn.get("reason") or "paused"
    text = turn.get("finalText") or _last_words(state)
    if error := turn.get("error"):
        return TaskOutcome("failed", reason, f"{error['message']}\n{text}".strip())
    if reason in {"finished", "endTurn"}:
        if state.result_schema is not None and turn.get("result") is None:
            return TaskOutcome("failed", "noResult", text)
        return TaskOutcome("completed", None, text, turn.get("result"))
    return TaskOutcome("cancelled" if reason in {"cancelled", "user"} else "failed", reason, text)


def _last_words(state: State) -> str:
    messages = (
        item.get("text") for item in reversed(state.items) if item["kind"] == "agentMessage"
    )
    return next(filter(None, messages), "")


def render_outcome(task: SubAgentTask, conversation_id: str, outcome: TaskOutcome) -> str:
    """Return what the model reads of an outcome, shortened; the sub-agent's log has it in full."""
    how = outcome.status
    if outcome.reason is not None:
        why = _REASONS.get(outcome.reason, outcome.reason)
        how = f"not completed: {why}; a task with resume {conversation_id!r} goes on with it"
    head = f"[{task.agent}: {task.title} | conversation {conversation_id} | {how}]"
    rows = [head, shorten(outcome.text, MAX_RESULT_CHARS) or "(it said nothing)"]
    if outcome.result is not None:
        rows.append(f"result: {json.dumps(outcome.result, ensure_ascii=False)}")
    return "\n".join(rows)
