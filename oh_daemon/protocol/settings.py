"""The settings model, and how values from several sources are merged.

Precedence, highest first: client, command line, environment, project file, user file. A project's
file may only tighten safety settings; a value that would loosen one is ignored and reported.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from oh_daemon.protocol.base import StrictContract, first_error, is_extension, names_on_wire
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.protocol.problems import Problem, Source
from oh_daemon.protocol.profiles import Profile, Router
from oh_daemon.protocol.rules_and_hooks import HookTable, Rule, read_hooks, read_rules

SandboxSetting = Literal["auto", "overlay", "landlock", "off"]
HostPattern = Annotated[
    str, Field(pattern=r"^((\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$")
]
Condenser = Literal["none", "window", "prune", "summarize", "pipeline"]
Positive = Annotated[float, Field(gt=0)]


class Project(Enum):
    """The values that a project's file may give a setting.

    Each field of `Settings` states one in its annotation: `titles: Annotated[bool, Project.NONE]`.
    A repository must not choose where the user's text and keys go, or which programs start.
    """

    NONE = "none, as for a field that states nothing: only the user sets it"
    ANY = "any value"
    LOWER = "a lower limit than the user's"
    STRICTER = "a stricter choice than the user's, in the order of `CHOICES` or `STRICTER`"
    FEWER = "a part of the user's entries"
    RESTRICTIONS = "entries that restrict; each is checked where the entries are read"


class Settings(StrictContract):
    """All settings. Each has a default; the names are the same in every file and client."""

    model: Annotated[str, Project.NONE] = ""
    """The model to use, by its litellm name, such as `anthropic/claude-sonnet-5-5`. If empty, the
    first provider whose key is in the environment is used. `demo` is a built-in script."""
    models: Annotated[tuple[str, ...], Project.NONE] = ()
    """Additional models to offer in model pickers."""
    llm: Annotated[dict[str, Any], Project.NONE] = Field(default_factory=dict)
    """Options for all model calls, such as `temperature`; docs/settings.md lists them."""
    profiles: Annotated[dict[str, Profile], Project.NONE] = Field(default_factory=dict)
    """Named profiles, each a `model` with its own `llm` options and `fallbacks`. A profile can be
    chosen wherever a model can."""
    routers: Annotated[dict[str, Router], Project.NONE] = Field(default_factory=dict)
    """Named routers, each of which sends a request to one of its `models`, by `rules` or `pick`. A
    router can be chosen wherever a model can."""
    key_store: Annotated[Literal["file", "keyring"], Project.NONE] = "file"
    """Where `oh-daemon login` stores keys: in a file that only you can read, or in the system's
    keyring, which needs the package `keyring` and two seconds at most."""
    approval: Annotated[Literal["askAlways", "askRisky", "askNever"], Project.STRICTER] = "askRisky"
    """When to ask before an action: always (`askAlways`), from medium risk on (`askRisky`) or never
    (`askNever`)."""
    mode: Annotated[Literal["plan", "ask", "autoEdit", "full"], Project.STRICTER] = "ask"
    """What the agent may do: `plan` only reads, `ask` asks as `approval` says, `autoEdit` does the
    same but, except under `askAlways`, edits unprotected files of the workspace without asking,
    `full` never asks."""
    sandbox: Annotated[SandboxSetting, Project.STRICTER] = "auto"
    """Sandbox for commands that run without approval: `overlay`, `landlock`, `auto` (the best that
    is available) or `off`. If the named level is not available, no command runs."""
    sandbox_reads: Annotated[tuple[str, ...], Project.NONE] = ()
    """Secrets that commands may read in a sandbox, such as `.env` or `~/.aws`: paths, or the ends
    of paths, with wildcards. All others are empty there."""
    hosts: Annotated[tuple[HostPattern, ...], Project.FEWER] = ()
    """Hosts that commands in a sandbox may connect to without asking, such as `example.com`,
    `*.example.com` or `10.0.0.5:8080`. Without a port, 80 and 443 are meant. `registries` are those
    of pip, npm, cargo and go. A project may only leave out some of yours."""
    rules: Annotated[tuple[Rule, ...], Project.RESTRICTIONS] = ()
    """Rules that deny, ask about or allow tool calls, each `{"decision", "tool", "argv", "match"}`.
    The rules of all sources apply; those of a project may only deny or ask."""
    hooks: Annotated[HookTable, Project.RESTRICTIONS] = Field(default_factory=dict)
    """Programs to run at certain events, in the format of Claude's settings files. A program is
    told what the agent does, and may deny it."""
    max_steps: Annotated[int, Field(ge=1, le=10_000), Project.ANY] = 100
    """Maximum number of model calls per turn. At the limit, the conversation pauses with reason
    `budget`."""
    max_cost_usd: Annotated[Positive | None, Project.LOWER] = None
    """Maximum cost per turn in US dollars. Only calls with a known price count."""
    max_cost_usd_per_conversation: Annotated[Positive | None, Project.LOWER] = None
    """Maximum cost of a conversation in US dollars. At the limit, it pauses with reason `budget`
    until the limit is raised."""
    max_cost_usd_per_day: Annotated[Positive | None, Project.LOWER] = None
    """Maximum cost per day in US dollars, of all your conversations in all editors together. At the
    limit, each of them pauses with reason `budget`."""
    max_minutes: Annotated[Positive | None, Project.LOWER] = None
    """Maximum duration of a turn in minutes, since you last sent, answered or resumed something. At
    the limit, no further step begins and the conversation pauses with reason `budget`."""
    condenser: Annotated[Condenser, Project.ANY] = "pipeline"
    """What to do when a conversation fills 80 % of the model's context window: `prune` leaves out
    long results of older steps, `summarize` replaces older steps by a summary, `pipeline` prunes
    and, if that is not enough, summarizes, `window` drops older steps, and `none` does nothing, so
    that the turn fails when the next request would not fit."""
    instructions: Annotated[str, Project.ANY] = ""
    """Text to append to every system prompt."""
    memory: Annotated[bool, Project.NONE] = True
    """Let the agent keep notes that outlive a conversation. It reads the newest at the start of a
    conversation, and can search them and write new ones."""
    titles: Annotated[bool, Project.NONE] = True
    """Ask the model for a title for each new conversation, in parallel with its first turn."""
    log_completions: Annotated[bool, Project.NONE] = False
    """Save each model request and its answer, with secrets masked, as a file in the conversation's
    folder."""
    mcp_servers: Annotated[dict[str, McpServerSettings], Project.NONE] = Field(default_factory=dict)
    """MCP servers by name, each with a `command` (and optionally `args` and `env`) or a `url` (and
    optionally `headers`)."""
    browser: Annotated[bool, Project.NONE] = False
    """Give the agent a browser: Playwright's MCP server with the Chromium of this machine, held in
    a sandbox like its commands. It needs Node, from which npx fetches the server."""
    share_tools: Annotated[bool, Project.NONE] = False
    """Let `oh-daemon mcp`, the MCP server for your other agents, use the editor's open buffers and
    language servers. Read when the daemon starts."""
    login_shell: Annotated[bool, Project.NONE] = True
    """Give commands the variables that your login shell sets, such as the `PATH` of nvm, pyenv or
    conda, when the daemon was started from a desktop. In a terminal and in VS Code they are there.
    Read when the daemon starts."""
    max_open_conversations: Annotated[int, Field(ge=1), Project.NONE] = 256
    """Maximum number of conversations that one daemon has open at the same time."""
    max_running_turns: Annotated[int, Field(ge=1), Project.NONE] = 64
    """Maximum number of turns that one daemon runs at the same time. Further turns wait."""
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], Project.NONE] = "INFO"
    """Log level of the daemon's own log file, which holds no message bodies and no secrets."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """Models to offer in addition to the one in use."""
        return (*self.profiles, *self.routers, *self.models)


CHOICES: dict[str, dict[str, str]] = {
    "mode": {
        "plan": "Plan: read only",
        "ask": "Ask",
        "autoEdit": "Edit freely",
        "full": "Full: never ask",
    },
    "approval": {
        "askAlways": "Ask always",
        "askRisky": "Ask if risky",
        "askNever": "Never ask",
    },
}
"""Picker labels by value, strictest value first."""
STRICTER: dict[str, dict[str, frozenset[str]]] = {
    "sandbox": {
        "off": frozenset({"auto", "landlock", "overlay"}),
        "auto": frozenset({"overlay"}),
        "landlock": frozenset({"overlay"}),
        "overlay": frozenset(),
    }
}
"""By value, what a project may replace it with. `auto` and `landlock` are in no order: either may
be the looser one, as what `auto` reaches depends on the machine."""


class Layer(Struct, frozen=True):
    """The values of one source, by their wire names."""

    source: Source
    values: Mapping[str, Any]

    @property
    def entries(self) -> list[tuple[str, Any]]:
        """All but what is not ours."""
        return [each for each in self.values.items() if not is_extension(each[0])]


class Merged(Struct, frozen=True):
    """The effective settings, the source of each, and the problems found in the sources."""

    settings: Settings
    sources: dict[str, str]
    problems: tuple[Problem, ...]


def merge_settings(layers: Sequence[Layer]) -> Merged:
    """Merge `layers`, given highest first. Never raises: a bad value is reported and left out.

    A bad `llm` is reported and stays: without it, a request could go to another place. Instead of
    a bad `sandbox`, the strictest one is in force.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    for layer in reversed(layers):
        for key, value in layer.entries:
            problem = _problem(layer, key, value, values)
            if problem is not None:
                problems.append(problem)
                if problem.code != "badSandbox":
                    continue
                value = "overlay"  # noqa: PLW2901 - the strictest one.
            sources[key] = layer.source
            problems += _set(values, layer.source, key, value)
    for key in KEYS:
        sources.setdefault(key, "default")
    return Merged(Settings.model_validate(values), sources, tuple(problems))


def _set(values: dict[str, Any], source: Source, key: str, value: Any) -> Sequence[Problem]:
    """Put a value over that of weaker layers; return what is wrong in it."""
    problems: Sequence[Problem] = ()
    if key == "rules":
        values[key], problems = read_rules(value, source, values.get(key, ()))
    elif key == "hooks":
        values[key], problems = read_hooks(value, source, values.get(key))
    else:
        problems = _problems_of_llm(source, value) if key == "llm" else ()
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    return problems


def _problem(layer: Layer, key: str, value: Any, below: Mapping[str, Any]) -> Problem | None:
    """Return why this value is not accepted, or None."""
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KEYS)}"
        return Problem("unknown", layer.source, key, (hint,))
    if key == "hooks" or (key == "rules" and isinstance(value, list | tuple)):
        return None  # Entries are read one by one, so that a bad one does not void the others.
    try:
        Settings.model_validate({key: value})
    except ValidationError as exc:
        path, wrong = first_error(exc, label=key)
        if key == "sandbox":
            return Problem(
                "badSandbox", layer.source, path, (_RENAMED if value == "view" else wrong,)
            )
        return Problem("invalid", layer.source, path, (wrong,))
    if layer.source == "project":
        return problem_from_project(key, _FIELDS[key], value, below)
    return None


def _problems_of_llm(source: Source, llm: Mapping[str, Any]) -> list[Problem]:
    try:
        LLMSettings.model_validate({"model": "any", **llm})
    except ValidationError as exc:
        path, wrong = first_error(exc, "llm")
        return [Problem("invalidLlm", source, path, (wrong,))]
    return []


def problem_from_project(
    key: str, field: FieldInfo, value: Any, below: Mapping[str, Any]
) -> Problem | None:
    """Return why a project may not set `field`, named `key`, to `value`; None if it may.

    `below` holds the values that the user has set, by their wire names.
    """
    match project_class(field):
        case Project.ANY | Project.RESTRICTIONS:
            return None
        case Project.LOWER:
            limit = below.get(key)
            if limit is not None and (value is None or value > limit):
                return Problem("tooHigh", "project", key, (repr(value), repr(limit)))
            return None
        case Project.FEWER:
            more = [entry for entry in value if entry not in below.get(key, ())]
            return Problem("moreHosts", "project", key, (str(more),)) if more else None
        case Project.STRICTER:
            current = below.get(key, field.default)
            if value != current and not _is_stricter(key, value, current):
                return Problem("tooLoose", "project", key, (repr(value), repr(current)))
            return None
        case Project.NONE:
            return Problem("notFromProject", "project", key)


def project_class(field: FieldInfo) -> Project:
    """Return the class that a field states; `Project.NONE` if it states none."""
    return next((each for each in field.metadata if isinstance(each, Project)), Project.NONE)


def _is_stricter(key: str, value: str, current: str) -> bool:
    if key in STRICTER:
        return value in STRICTER[key][current]
    return value == stricter(key, value, current)


def stricter(option: str, *values: str) -> str:
    """Return the strictest of several values of an option."""
    return min(values, key=[*CHOICES[option]].index)


_RENAMED = "'view' is now called 'overlay'"
"""Release candidates before 1.0.0 had the value `view` of `sandbox`."""
_FIELDS = dict(zip(names_on_wire(Settings), Settings.model_fields.values(), strict=True))
KEYS = tuple(_FIELDS)
LIMITS = frozenset(key for key in KEYS if project_class(_FIELDS[key]) is Project.LOWER)
"""The names of the limits of cost and time."""
