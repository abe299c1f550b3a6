"""Rules of users and projects: which tool calls are denied, asked about or allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError

from oh_daemon.contract.base import Contract, first_error
from oh_daemon.contract.problems import Problem, Source


class Rule(Contract):
    """The decision for calls of `tool`.

    `argv` has the first words of a command; each entry is a word or several alternatives.
    """

    model_config = ConfigDict(extra="forbid")

    decision: Literal["deny", "ask", "allow"]
    tool: str = "terminal"
    """Name of the tool, or a pattern such as `shop__*`."""
    argv: tuple[str | tuple[str, ...], ...] = ()
    reason: str = ""
    match: tuple[str, ...] = ()
    """Example commands that the rule must match. If it does not, it is reported, and an `allow` is
    ignored."""
    not_match: tuple[str, ...] = ()
    """Example commands that the rule must not match; as with `match`."""
    scope: Literal["user", "project"] = "user"

    @property
    def name(self) -> str:
        words = (word if isinstance(word, str) else "|".join(word) for word in self.argv)
        shown = " ".join((self.decision, self.tool, *words))
        return f"{self.scope} rule: {shown}" + (f" ({self.reason})" if self.reason else "")


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
