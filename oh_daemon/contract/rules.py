"""Rules of the user and of projects: which calls are denied, asked about or allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError, model_validator

from oh_daemon.contract.base import Contract, problem_in


class Rule(Contract):
    """What a call of `tool` gets. `argv` are the first words of a command, each one or several."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["deny", "ask", "allow"]
    tool: str = "terminal"
    """Its name, or a pattern such as `shop__*`."""
    argv: tuple[str | tuple[str, ...], ...] = ()
    reason: str = ""
    match: tuple[str, ...] = ()
    """Commands that it must meet, else it does not count."""
    not_match: tuple[str, ...] = ()
    """Commands that it must not meet."""
    scope: Literal["user", "project"] = "user"

    @model_validator(mode="after")
    def _has_examples(self) -> Rule:
        if self.argv and not self.match:
            raise ValueError("a rule with argv needs match: commands that it must meet")
        return self

    @property
    def name(self) -> str:
        words = (word if isinstance(word, str) else "|".join(word) for word in self.argv)
        shown = " ".join((self.decision, self.tool, *words))
        return f"{self.scope} rule: {shown}" + (f" ({self.reason})" if self.reason else "")


def read_rules(
    values: Sequence[Any], source: str, below: Sequence[Rule] = ()
) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Those `below` with those of one source, and why others do not count: a project tightens."""
    scope = "project" if source == "project" else "user"
    rules = [*below]
    problems: list[str] = []
    for position, value in enumerate(values):
        try:
            rule = Rule.model_validate(value).model_copy(update={"scope": scope})
        except ValidationError as exc:
            problems.append(f"{source}: {problem_in(exc, 'rules', position)}")
            continue
        if scope == "project" and rule.decision == "allow":
            problems.append(f"{source}: rules.{position}: a project cannot allow; it is ignored")
            continue
        rules.append(rule)
    return tuple(rules), tuple(problems)
