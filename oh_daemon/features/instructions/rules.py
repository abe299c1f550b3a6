"""Parses the rule files of other tools: imports of other files, and when a rule holds. Pure."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal

from msgspec import Struct

from oh_daemon.common.front_matter import parse_front_matter
from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.file_names import fits, parse_glob

_FENCE = re.compile(r"\s*(?:[-*+>] +|\d+[.)] +)*(`{3,}|~{3,})")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)\1(?!`)", re.DOTALL)
_IMPORT = re.compile(r"(?<!\S)@((?:[^\s\\\0]|\\ )+)")
_GLOB_KEYS = ("globs", "applyTo", "paths")
"""Of Cursor and Windsurf, GitHub Copilot, and Claude Code and Cline."""
_ALL_FILES = {"*", "**", "**/*"}


def find_imports(text: str) -> list[str]:
    r"""Return the paths that a text imports with `@path`, as Claude Code reads it.

    Code spans and fenced code import nothing; a blank in a path is written `\ `. The list also
    contains words such as "@someone", which name no file.
    """
    prose = _SPAN.sub("`", _without_fences(text))
    words = (match[1].replace("\\ ", " ") for match in _IMPORT.finditer(prose))
    paths = (word.partition("#")[0].rstrip(".,;:!?)\"'") for word in words)
    return [*dict.fromkeys(filter(None, paths))]


def _without_fences(text: str) -> str:
    lines: list[str] = []
    fence: str | None = None
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence is None:
            fence = match[1] if match else None
            lines.append("" if match else line)
        elif match and match[1].startswith(fence) and not line.strip(" \t`~>"):
            fence = None
    return "\n".join(lines)


def names_a_file(path: str) -> bool:
    """Return whether a person who wrote `@path` meant a file: it has a suffix, or begins as one."""
    return path.startswith(("~/", "./", "../", "/")) or bool(re.search(r"\w\.\w{1,8}$", path))


class ScopedRule(Struct, frozen=True):
    """A rule of a folder with one file for each: its text, and when it holds."""

    text: str
    when: Literal["always", "matching", "described", "never"]
    globs: tuple[str, ...] = ()
    description: str = ""

    def holds_for(self, path: PurePath) -> bool:
        """Return whether one of the globs matches a path relative to the folder of the rules."""
        return any(_matches(path, glob) for glob in self.globs)


def parse_rule(text: str, otherwise: Literal["always", "never"]) -> ScopedRule:
    r"""Parse a file with front matter of Claude Code, Cline, Copilot, Cursor or Windsurf.

    >>> parse_rule("---\nglobs: *.ts, src/**\n---\nUse tabs.", "never").globs
    ('*.ts', 'src/**')
    """
    values, body = parse_front_matter(text)
    globs = tuple(glob for key in _GLOB_KEYS for glob in _list(values.get(key, "")))
    description = " ".join(str(values.get("description", "")).split())
    trigger = values.get("trigger")
    if values.get("alwaysApply") == "true" or trigger == "always_on" or set(globs) & _ALL_FILES:
        return ScopedRule(body, "always")
    if trigger == "manual":
        return ScopedRule(body, "never")
    if globs:
        return ScopedRule(body, "matching", globs)
    if description and otherwise == "never":
        return ScopedRule(body, "described", description=description)
    return ScopedRule(body, otherwise)


def _list(value: str | list[str]) -> list[str]:
    # The commas within braces are part of a pattern.
    words = re.split(r",(?![^{]*\})", value) if isinstance(value, str) else value
    return [glob for word in words if (glob := word.strip().strip("\"'"))]


def _matches(path: PurePath, glob: str) -> bool:
    try:
        return fits(path, parse_glob(glob))
    except ToolError:
        return False
