"""Named agents that a conversation can delegate to: the built-in ones, and those that files define.

The files use the format of other agents, whose usual names of tools are understood too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from oh_daemon.core.front_matter import parse_front_matter

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


@dataclass(frozen=True, slots=True)
class NamedAgent:
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
    NamedAgent(
        "general", "Does a whole task on its own, with all tools: changes, commands, tests."
    ),
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
    listed = value.split(",") if isinstance(value, str) else value
    names = [name for each in listed if (name := each.partition("(")[0].strip())]
    return None if names in ([], ["*"]) else names


def _own_name(name: str) -> str:
    return _OWN_NAMES.get(name.lower(), name.lower() if name.lower() in _READING else name)


def choose_agents(found: Iterable[NamedAgent]) -> dict[str, NamedAgent]:
    """Return agents by name, sorted; of those with the same name the first in `found` counts."""
    agents: dict[str, NamedAgent] = {}
    for agent in (*found, *BUILTIN):
        agents.setdefault(agent.name, agent)
    return dict(sorted(agents.items()))
