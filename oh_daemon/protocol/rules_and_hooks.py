"""Rules of users and projects (which calls are denied, asked about or allowed), and hooks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import Field, ValidationError, field_validator

from oh_daemon.protocol.base import Contract, StrictContract, first_error
from oh_daemon.protocol.problems import Problem, Source


class Rule(StrictContract):
    """The decision for calls of `tool`.

    `argv` has the first words of a command; each entry is a word or several alternatives.
    """

    decision: Literal["deny", "ask", "allow"]
    """What happens with such calls."""
    tool: str = "terminal"
    """Name of the tool, or a pattern such as `shop__*`."""
    argv: tuple[str | tuple[str, ...], ...] = ()
    """First words of the command; each is a word or several alternatives."""
    reason: str = ""
    """Why, for people and the model."""
    match: tuple[str, ...] = ()
    """Example commands that the rule must match. If it does not, it is reported, and an `allow` is
    ignored."""
    not_match: tuple[str, ...] = ()
    """Example commands that the rule must not match; as with `match`."""
    scope: Literal["user", "project"] = "user"
    """Whose rule it is; the source sets it."""

    @property
    def name(self) -> str:
        words = (word if isinstance(word, str) else "|".join(word) for word in self.argv)
        command = " ".join((self.decision, self.tool, *words))
        return f"{self.scope} rule: {command}" + (f" ({self.reason})" if self.reason else "")


def read_rules(
    values: Sequence[Any], source: Source, below: Sequence[Rule] = ()
) -> tuple[tuple[Rule, ...], tuple[Problem, ...]]:
    """Add one source's rules to those `below`; report what is ignored: a project may not allow."""
    scope = "project" if source == "project" else "user"
    rules = [*below]
    problems: list[Problem] = []
    for position, value in enumerate(values):
        try:
            rule = Rule.model_validate(value).model_copy(update={"scope": scope})
        except ValidationError as exc:
            path, wrong = first_error(exc, "rules", position)
            problems.append(Problem("invalid", source, path, (wrong,)))
            continue
        if scope == "project" and rule.decision == "allow":
            problems.append(Problem("allowingRule", source, f"rules.{position}"))
            continue
        rules.append(rule)
    return tuple(rules), tuple(problems)


HookEvent = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "SubagentStop",
    "PreCompact",
]


class HookCommand(Contract):
    """A command for bash, which gets JSON on stdin and answers with its exit code and JSON."""

    type: Literal["command"]
    command: str
    """What bash runs."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60
    """Timeout in seconds; then the command is ended and counts as failed."""


class HookGroup(Contract):
    """Hooks for names that `matcher`, a regular expression, matches as a whole; empty means all."""

    matcher: str = ""
    """Regular expression for names of tools; empty for all."""
    hooks: tuple[HookCommand, ...]
    """What runs then."""
    scope: Literal["user", "project"] = "user"
    """Whose hooks they are; the source sets it."""

    @field_validator("matcher")
    @classmethod
    def _is_pattern(cls, value: str) -> str:
        pattern = "" if value == "*" else value
        try:
            re.compile(pattern)
        except re.error as exc:
            raise ValueError(f"{value!r} is not a regular expression: {exc}") from exc
        return pattern


HookTable = dict[str, tuple[HookGroup, ...]]
"""Hook groups by event."""


def read_hooks(
    values: Any, source: Source, below: HookTable | None = None
) -> tuple[HookTable, tuple[Problem, ...]]:
    """Add one source's hooks to those `below`, and report those that are not valid.

    Unknown events are skipped.
    """
    scope = "project" if source == "project" else "user"
    table: HookTable = {**(below or {})}
    problems: list[Problem] = []
    if not isinstance(values, Mapping):
        return table, (Problem("noHookTable", source, "hooks"),)
    for event, groups in cast("Mapping[str, Any]", values).items():
        if event not in get_args(HookEvent):
            continue
        group_list = cast("Sequence[Any]", groups if isinstance(groups, list | tuple) else [groups])
        for position, group in enumerate(group_list):
            try:
                read = HookGroup.model_validate(group).model_copy(update={"scope": scope})
                table[event] = (*table.get(event, ()), read)
            except ValidationError as exc:
                path, wrong = first_error(exc, "hooks", event, position)
                problems.append(Problem("invalid", source, path, (wrong,)))
    return table, tuple(problems)
