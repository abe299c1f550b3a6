"""Chooses the tools that a conversation's model is offered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, get_args

from oh_daemon.contract.messages import ToolFilter
from oh_daemon.core.ports import Json, Tool, ToolSpec

BuiltinName = Literal[
    "terminal", "edit", "grep", "glob", "list", "ask", "todo", "think", "finish", "delegate"
]
BUILTIN: tuple[BuiltinName, ...] = get_args(BuiltinName)


def choose_tools(
    tools: Iterable[Tool], patching: Sequence[Tool], wanted: ToolFilter
) -> dict[str, Tool]:
    """Return the tools to offer, by name; of two with the same name, the later one.

    `patching` is empty, or holds `apply_patch` and then the tools that replace others beside it.
    """
    found = {tool.spec.name: tool for tool in tools}
    if patching and _is_wanted(patching[0].spec, wanted):
        found |= {tool.spec.name: tool for tool in patching}
    return {name: tool for name, tool in found.items() if _is_wanted(tool.spec, wanted)}


def _is_wanted(spec: ToolSpec, wanted: ToolFilter) -> bool:
    is_allowed = wanted.allow is None or _is_named(spec, wanted.allow)
    return is_allowed and not _is_named(spec, wanted.deny)


def _is_named(spec: ToolSpec, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in spec.names for pattern in patterns)


def render_tool_info(spec: ToolSpec) -> Json:
    """Describe a tool in MCP's form."""
    return {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "annotations": {"readOnlyHint": spec.read_only},
    }
