"""Chooses what the model is offered of the tools that a server lists. Pure; trusts nothing listed.

Each name is prefixed with the server's, so no tool can replace another one. A tool that differs
from how it was first offered is left out until a person restarts the server.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from oh_daemon.common.decoded import as_object
from oh_daemon.kernel.ports import Json, ToolSpec
from oh_daemon.kernel.tool_calls import schema_flaw
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.workspace.paths import printable

MAX_TOOLS = 128
MAX_SCHEMA_BYTES = 64 << 10
MAX_DESCRIPTION = 4_000
_MAX_NAME = 64
_TOO_MANY = f"only {MAX_TOOLS} tools of a server are offered; name them in `allow`"


class SelectedTool(Struct, frozen=True):
    """A tool of a server; its `spec` has the name by which the model calls it."""

    spec: ToolSpec
    own_name: str
    digest: str
    """Hash of everything that the server says about the tool."""
    is_marked: bool = False
    """Whether its server marks it as read-only (`readOnlyHint`)."""


class ToolSelection(Struct, frozen=True):
    """The tools of a server that are offered, and why the others are not."""

    tools: tuple[SelectedTool, ...]
    left_out: tuple[str, ...]
    digests: Mapping[str, str]
    """The digest of each tool from when it was first seen."""


def choose_tools(
    server: str,
    settings: McpServerSettings,
    listing: Iterable[object],
    past_digests: Mapping[str, str],
) -> ToolSelection:
    """Choose from `listing`, which should have tools in MCP's form, but may have anything.

    `past_digests` are those of earlier selections.
    """
    digests = dict(past_digests)
    tools: dict[str, SelectedTool] = {}
    left_out: list[str] = []
    for n, entry in enumerate(listing, 1):
        tool = as_object(entry)
        own_name = name if isinstance(name := tool.get("name"), str) else ""
        if (settings.allow is not None and own_name not in settings.allow) or (
            own_name in settings.deny
        ):
            continue
        text = json.dumps(tool, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        first_digest = digests.setdefault(own_name, digest)
        offered_name = tool_name(server, own_name)
        earlier = tools.get(offered_name)
        if earlier is not None and (earlier.own_name, earlier.digest) == (own_name, digest):
            continue
        is_changed = earlier is None and digest != first_digest
        is_full = len(tools) >= MAX_TOOLS
        # The check of a schema takes a millisecond, which would add up in a list without end.
        problem = _TOO_MANY if is_full else _problem(tool, text, is_changed=is_changed)
        if problem is None and earlier is not None:
            problem = "another tool has this name"
        if problem is None:
            tools[offered_name] = SelectedTool(
                _spec(offered_name, server, tool), own_name, digest, _is_marked(tool)
            )
        elif len(left_out) < MAX_TOOLS:
            left_out.append(f"{printable(own_name)[:_MAX_NAME] or f'tool {n}'}: {problem}")
    return ToolSelection(tuple(tools.values()), tuple(left_out), digests)


def _problem(tool: Json, text: str, *, is_changed: bool) -> str | None:
    if len(text) > MAX_SCHEMA_BYTES:
        return f"its description is longer than {MAX_SCHEMA_BYTES >> 10} KiB"
    has_name = isinstance(tool.get("name"), str) and tool["name"]
    if not has_name or not isinstance(tool.get("inputSchema"), dict):
        return "it has no name or no input schema"
    if is_changed:
        says = printable(str(tool.get("description")))[:200]
        return f"it changed since it was first offered; mcp/restart takes the new one: {says!r}"
    return input_schema_problem(tool["inputSchema"])


def input_schema_problem(schema: Json) -> str | None:
    flaw = schema_flaw(schema)
    if flaw is None and "object" not in _types_of(schema):
        flaw = "it is not of an object"
    return flaw and f"its input schema is none: {flaw}"


def _types_of(schema: Json) -> Sequence[str]:
    """Return the types of the values that the schema allows."""
    types = schema.get("type", "object")
    return [types] if isinstance(types, str) else types


def _is_marked(tool: Json) -> bool:
    return as_object(tool.get("annotations")).get("readOnlyHint") is True


def _spec(name: str, server: str, tool: Json) -> ToolSpec:
    text = tool.get("description")
    description = printable(text if isinstance(text, str) else "", allowed="\n\t")
    # Arguments are always an object, and some providers refuse `["object", "null"]`.
    schema: Json = {"type": "object", "properties": {}, **tool["inputSchema"]}
    return ToolSpec(
        name,
        f"{description[:MAX_DESCRIPTION]}\n(a tool of the MCP server {server!r})",
        {**schema, "type": "object"},
        is_foreign=True,
    )


def tool_name(server: str, tool: str) -> str:
    """Return `server__tool` in characters that providers accept (`A-Za-z0-9_-`), at most 64."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}__{tool}")
    if len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
