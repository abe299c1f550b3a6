"""What is wrong with a source of settings: where it is, and what became of it.

Whoever shows a problem makes the text for it with `render_problem`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Source = Literal["client", "command line", "environment", "project", "user", "default"]
ProblemCode = Literal[
    "unknown",
    "invalid",
    "invalidLlm",
    "badSandbox",
    "noHookTable",
    "notFromProject",
    "tooHigh",
    "tooLoose",
    "moreHosts",
    "allowingRule",
    "countingRule",
    "voidRule",
    "untrusted",
    "unreadable",
    "noObject",
    "holdsKey",
    "decisions",
]


class Problem(Struct, frozen=True):
    """One thing that is wrong in a source; `details` are what its text names besides."""

    code: ProblemCode
    source: Source
    path: str = ""
    """The setting or the file."""
    details: tuple[str, ...] = ()


def render_problem(problem: Problem, *, with_outcome: bool = True) -> str:
    """Return the text for people; `with_outcome` says what became of a file as well."""
    statement = _STATEMENTS[problem.code].format(
        *problem.details, source=problem.source, path=problem.path
    )
    return statement + _OUTCOMES.get(problem.code, "") if with_outcome else statement


_STATEMENTS: Mapping[ProblemCode, str] = {
    "unknown": "{source}: unknown setting {path!r}; {0}",
    "invalid": "{source}: {path}: {0}",
    "invalidLlm": "{source}: {path}: {0}; no model is asked until this is corrected",
    "badSandbox": "{source}: {path}: {0}; 'overlay' is in force until this is corrected",
    "noHookTable": "{source}: {path} must be an object with lists by event",
    "notFromProject": "{source}: {path!r} is not taken from a project; set it in your own settings",
    "tooHigh": "{source}: {path} {0} would raise {1} and is ignored",
    "tooLoose": "{source}: {path} {0} would loosen {1} and is ignored",
    "moreHosts": "{source}: hosts {0} are not among yours; `hosts` is ignored",
    "allowingRule": "{source}: {path}: a project cannot allow; it is ignored",
    "countingRule": "{path}: {0}; it counts",
    "voidRule": "{path}: {0}; it does not count",
    "untrusted": (
        "{source}: its settings and hooks are not used, because the folder is not trusted"
    ),
    "unreadable": "{source}: {path} cannot be read ({0})",
    "noObject": "{source}: {path} must hold a JSON object",
    "holdsKey": (
        "{source}: {path} holds a key; keys belong in the environment or the editor's secret store"
    ),
    "decisions": (
        "decisions: {path} cannot be read, so it trusts no folder and allows no action; repair it,"
        " or decide anew, and it is kept as {0}"
    ),
}
_OUTCOMES: Mapping[ProblemCode, str] = {
    "unreadable": "; it is left out",
    "noObject": "; it is left out",
    "holdsKey": ", so it is left out",
}
