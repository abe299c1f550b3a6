"""The one settings model and how its sources are merged.

Highest first: client, command line, environment, project file, user file. A project's file
may only tighten what keeps the user safe; what it would loosen is ignored and reported.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from oh_daemon.contract.base import Contract, problem_in
from oh_daemon.contract.hooks import HookTable, read_hooks
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.mcp import McpServerSettings
from oh_daemon.contract.profiles import Profile, Router
from oh_daemon.contract.rules import Rule, read_rules

Source = Literal["client", "command line", "environment", "project", "user", "default"]

Condenser = Literal["none", "window", "prune", "summarize", "pipeline"]


class Settings(Contract):
    """Every setting. Each has a default; the names are the same in all files and clients."""

    model_config = ConfigDict(extra="forbid")

    model: str = ""
    """The model by its litellm name, such as `anthropic/claude-sonnet-4-5`. Empty: the first
    provider whose key is in the environment; `demo` is the built-in script."""
    models: tuple[str, ...] = ()
    """More models to offer in pickers."""
    llm: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the model layer by the names of `LLMSettings`, such as `temperature`."""
    profiles: dict[str, Profile] = Field(default_factory=dict)
    """Names for a `model` with its own `llm` and `fallbacks`; offered as models."""
    routers: dict[str, Router] = Field(default_factory=dict)
    """Names for a choice between `models`, by `rules` or `pick`; offered as models."""
    approval: Literal["askAlways", "askRisky", "askNever"] = "askRisky"
    """When to ask before an action: always, from medium risk on, or never."""
    mode: Literal["plan", "ask", "autoEdit", "full"] = "ask"
    """`plan` only reads, `autoEdit` lets edits in the workspace pass, `full` asks for nothing."""
    rules: tuple[Rule, ...] = ()
    """Calls to deny, ask about or allow, each `{"decision", "tool", "argv", "match"}`; those of
    all sources count, and a project's may only deny or ask."""
    hooks: HookTable = Field(default_factory=dict)
    """Programs that are told of what the agent does and may deny it, by event, in Claude's
    format."""
    max_steps: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Model calls per turn; then the conversation pauses with reason `budget`."""
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """Cost per turn in US dollars, as far as prices are known."""
    max_cost_usd_per_conversation: Annotated[float, Field(gt=0)] | None = None
    """Cost of a conversation; then it pauses with reason `budget` until the limit is raised."""
    max_cost_usd_per_day: Annotated[float, Field(gt=0)] | None = None
    """Cost of all your conversations of one day, in all editors; then each pauses like that."""
    condenser: Condenser = "pipeline"
    """What to do at 80 % of the model's window: `prune` leaves out long results of older steps,
    `summarize` replaces older steps by a summary, `pipeline` prunes and then summarizes,
    `window` forgets them, `none` lets the turn fail."""
    instructions: str = ""
    """Text for the end of every system prompt."""
    memory: bool = True
    """Notes that outlive a conversation: read at its start, searched and written by the agent."""
    titles: bool = True
    """Ask the model for a title of each new conversation, beside its first turn."""
    log_completions: bool = False
    """Keep each model request and its answer, masked, as a file in the conversation's folder."""
    mcp_servers: dict[str, McpServerSettings] = Field(default_factory=dict)
    """MCP servers by name, each with a `command` (and `args`, `env`) or a `url` (and `headers`)."""
    share_tools: bool = False
    """Let `oh-daemon mcp`, with which your other agents start it, use the editor's open buffers and
    language servers. Read when the daemon starts."""
    max_open_conversations: Annotated[int, Field(ge=1)] = 256
    """At the same time, in one daemon."""
    max_running_turns: Annotated[int, Field(ge=1)] = 64
    """More turns wait for their turn."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Of the daemon's own log file, which holds no message bodies and no secrets."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """Models to offer beside the one in use."""
        return (*self.profiles, *self.routers, *self.models)


CHOICES: dict[str, dict[str, str]] = {
    "mode": {
        "plan": "Plan: read only",
        "ask": "Ask",
        "autoEdit": "Edit without asking",
        "full": "Full: never ask",
    },
    "approval": {
        "askAlways": "Ask before every action",
        "askRisky": "Ask before risky actions",
        "askNever": "Never ask",
    },
}
"""The values of these as pickers call them, strictest first: that of project and user wins."""
LIMITS = frozenset({"maxCostUsd", "maxCostUsdPerConversation", "maxCostUsdPerDay"})
"""A project may only lower them."""
TIGHTENED = frozenset({"rules", "hooks"})
"""A project adds to these what is stricter."""
NOT_FROM_PROJECT = frozenset(
    {
        *("model", "models", "llm", "profiles", "routers", "mcpServers", "shareTools"),
        "memory",
        *("titles", "logCompletions", "logLevel", "maxOpenConversations", "maxRunningTurns"),
    }
)
"""A repository must not choose where the user's text and keys go, nor what is started."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One source's values, by their wire names."""

    source: Source
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Merged:
    """Settings in force, where each came from, and what was wrong with the sources."""

    settings: Settings
    sources: dict[str, str]
    problems: tuple[str, ...]


def merge_settings(layers: Sequence[Layer]) -> Merged:
    """Merge layers given highest first. Never raises: a bad value is reported and left out."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[str] = []
    for layer in reversed(layers):
        for key, value in layer.values.items():
            problem = _problem(layer, key, value, values)
            if problem is not None:
                problems.append(problem)
                continue
            sources[key] = layer.source
            if key == "rules":
                values[key], wrong = read_rules(value, layer.source, values.get(key, ()))
                problems += wrong
            elif key == "hooks":
                values[key], wrong = read_hooks(value, layer.source, values.get(key))
                problems += wrong
            else:
                values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    for key in KEYS:
        sources.setdefault(key, "default")
    return Merged(Settings.model_validate(values), sources, tuple(problems))


def _problem(layer: Layer, key: str, value: Any, below: Mapping[str, Any]) -> str | None:
    """Why this value does not count, or None."""
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(KEYS)}"
        return f"{layer.source}: unknown setting {key!r}{hint}"
    if key == "hooks" or (key == "rules" and isinstance(value, list | tuple)):
        return None  # Read one by one: a wrong one must not take the others with it.
    try:
        Settings.model_validate({key: value})
        if key == "llm":
            LLMSettings.model_validate({"model": "any", **value})
    except ValidationError as exc:
        return f"{layer.source}: {problem_in(exc, whole=key)}"
    if layer.source == "project":
        return _loosens(key, value, below)
    return None


def _loosens(key: str, value: Any, below: Mapping[str, Any]) -> str | None:
    if key in NOT_FROM_PROJECT:
        return f"project: {key!r} is not taken from a project; set it in your own settings"
    if key in LIMITS:
        limit = below.get(key)
        is_higher = limit is not None and (value is None or value > limit)
        return (
            f"project: {key} {value!r} would raise {limit!r} and is ignored" if is_higher else None
        )
    if key in CHOICES:
        current = below.get(key, getattr(Settings(), key))
        if value != stricter(key, value, current):
            return f"project: {key} {value!r} would loosen {current!r} and is ignored"
    return None


def stricter(option: str, *values: str) -> str:
    """Of several values of an option the strictest."""
    return min(values, key=[*CHOICES[option]].index)


KEYS: tuple[str, ...] = tuple(to_camel(name) for name in Settings.model_fields)
