"""Chooses what the model is offered of the tools that a server lists. Pure; trusts nothing listed.

Each name is prefixed with the server's, so no tool can replace another one. A tool that differs
from how it was first offered is left out until a person restarts the server.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oh_daemon.kernel.ports import Json, ToolSpec
from oh_daemon.kernel.tool_calls import schema_flaw
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.workspace.paths import printable

MAX_TOOLS = 128
MAX_SCHEMA_BYTES = 64 << 10
MAX_DESCRIPTION = 4_000
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class SelectedTool:
    """A tool of a server; its `spec` has the name by which the model calls it."""

    spec: ToolSpec
    own_name: str
    digest: str
    """Hash of everything that the server says about the tool."""
    is_marked: bool = False
    """Whether its server marks it as read-only (`readOnlyHint`)."""


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """The tools of a server that are offered, and why the others are not."""

    tools: tuple[SelectedTool, ...]
    left_out: tuple[str, ...]
    digests: Mapping[str, str]
    """The digest of each tool from when it was first seen."""


def choose_tools(
    server: str,
    settings: McpServerSettings,
    listing: Iterable[Json],
    past_digests: Mapping[str, str],
) -> ToolSelection:
    """Choose from `listing`, tools in MCP's form; `past_digests` are of earlier ones."""
    digests = dict(past_digests)
    tools: dict[str, SelectedTool] = {}
    left_out: list[str] = []
    for tool in listing:
        own_name = str(tool.get("name", ""))
        if (settings.allow is not None and own_name not in settings.allow) or (
            own_name in settings.deny
        ):
            continue
        text = json.dumps(tool, sort_keys=True)
        digest = digests.setdefault(own_name, hashlib.sha256(text.encode()).hexdigest())
        problem = _problem(tool, text, digest, is_full=len(tools) >= MAX_TOOLS)
        name = tool_name(server, own_name)
        if problem is None and name in tools:
            problem = "another tool has this name"
        if problem is None:
            hints: Json = tool.get("annotations") or {}
            is_marked = hints.get("readOnlyHint") is True
            tools[name] = SelectedTool(_spec(name, server, tool), own_name, digest, is_marked)
        elif len(left_out) < MAX_TOOLS:
            left_out.append(f"{printable(own_name)[:_MAX_NAME]}: {problem}")
    return ToolSelection(tuple(tools.values()), tuple(left_out), digests)


def _problem(tool: Json, text: str, digest: str, *, is_full: bool) -> str | None:
    if is_full:
        return f"only {MAX_TOOLS} tools of a server are offered; name them in `allow`"
    if len(text) > MAX_SCHEMA_BYTES:
        return f"its description is longer than {MAX_SCHEMA_BYTES >> 10} KiB"
    if not isinstance(tool.get("inputSchema"), dict) or not tool.get("name"):
        return "it has no name or no input schema"
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        says = printable(str(tool.get("description")))[:200]
        return f"it changed since it was first offered; mcp/restart takes the new one: {says!r}"
    return input_schema_problem(tool["inputSchema"])


def input_schema_problem(schema: Json) -> str | None:
    flaw = schema_flaw(schema)
    return flaw and f"its input schema is none: {flaw}"


def _spec(name: str, server: str, tool: Json) -> ToolSpec:
    description = printable(str(tool.get("description") or ""), allowed="\n\t")
    schema: Json = {"type": "object", "properties": {}, **tool["inputSchema"]}
    return ToolSpec(
        name,
        f"{description[:MAX_DESCRIPTION]}\n(a tool of the MCP server {server!r})",
        schema,
        is_foreign=True,
    )


def tool_name(server: str, tool: str) -> str:
    """Return `server__tool` in characters that providers accept (`A-Za-z0-9_-`), at most 64."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
