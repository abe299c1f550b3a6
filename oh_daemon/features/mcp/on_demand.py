"""Tools on demand: requests have two tools in place of many tools of MCP servers.

`find_tools` returns schemas as text, and `call_tool` calls a tool by its name. The kernel resolves
that call to the tool itself, so log, approvals, rules and hooks show its name and arguments. A
request begins with its tools, so providers cache it only while these stay the same: in a
conversation, the description of `find_tools` stays as it was when tools first were on demand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.mcp.servers import McpTool
from oh_daemon.kernel.ports import Footprint, Intent, Json, Tool, ToolContext, ToolResult, ToolSpec
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.paths import printable

MAX_DIRECT_TOOLS = 30
MAX_DIRECT_TOKENS = 5_000
"""The 25 tools of the browser (Playwright's server 0.0.83) have 4,900, and stay in requests."""
FIND, CALL = "find_tools", "call_tool"
_CHARS_PER_TOKEN = 4
"""Of JSON in English, on average; providers' tokenizers differ by a fifth."""
_MAX_NAMES_CHARS = 3_200
"""Size of all names in the description of `find_tools`: about 900 tokens."""
_MAX_MATCHES = 8
_MAX_RESULT_CHARS = 24_000
_SUMMARY_CHARS = 100
_FIND_TEXT = (
    f"Get the descriptions and schemas of tools of MCP servers, to call them with {CALL}. "
    "Tools by server, each name without its prefix `SERVER__`:"
)
_WORD = re.compile(r"[^\W_]+")


class FindTool(Struct, frozen=True):
    """Returns the schemas of tools on demand as text."""

    spec: ToolSpec
    tools: Sequence[McpTool]

    def plan(self, args: Json) -> Intent:
        title = f"Find tools: {args.get('query') or 'all'}"
        footprint = Footprint(writes=False, paths=frozenset())
        return Intent(title, ToolSubject(tool=FIND, args=args), "low", footprint=footprint)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - nothing to wait for.
        query = str(args.get("query") or "")
        if not query.strip():
            return ToolResult.of("\n".join(map(_summary, self.tools)) or "(no tools)")
        matches = find_matches(query, self.tools)
        if not matches:
            raise ToolError(f"no tool has words of {query!r}; without `query`, all are listed")
        text = ""
        for n, tool in enumerate(matches):
            details = _details(tool)
            if n >= _MAX_MATCHES or (text and len(text) + len(details) > _MAX_RESULT_CHARS):
                names = ", ".join(each.spec.name for each in matches[n:])
                return ToolResult.of(f"{text}Also found, find them by name: {names}")
            text += f"{details}\n\n"
        return ToolResult.of(text.rstrip())


class CallTool(Struct, frozen=True):
    """Stands for `call_tool` in requests; the kernel resolves its calls, so it never runs."""

    spec: ToolSpec

    def plan(self, args: Json) -> Intent:
        raise ToolError(f"{args['name']!r} cannot be called; {FIND} lists the tools")

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - see `plan`.
        raise ToolError(f"{args['name']!r} cannot be called; {FIND} lists the tools")


_CALL_TOOL = CallTool(
    ToolSpec(
        CALL,
        f"Call a tool that {FIND} lists. Find its schema first.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "As listed, such as `shop__price`."},
                "arguments": {"type": "object", "description": "As the tool's schema says."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        access="forwards",
    )
)


class ToolsOnDemand:
    """Arranges the tools of one conversation; once some are on demand, it stays so."""

    def __init__(self) -> None:
        self._description: str | None = None
        self._direct_tools: Mapping[str, Tool] = {}
        """The tools of servers that were few and small enough in the last step."""

    def arrange(self, tools: Mapping[str, Tool], earlier: Iterable[Json]) -> dict[str, Tool]:
        """Return the tools, with those of servers on demand if they are too many or too large.

        `earlier` has the tools of before, as the log of the conversation describes them.
        """
        of_servers = {name: tool for name, tool in tools.items() if isinstance(tool, McpTool)}
        if self._description is None:
            descriptions = (info["description"] for info in earlier if info["name"] == FIND)
            self._description = next(descriptions, None)
        if self._description is None:
            # Each step asks, and the size takes longer to find than a change.
            if of_servers == self._direct_tools:
                return dict(tools)
            if not is_too_much([tool.spec for tool in of_servers.values()]):
                self._direct_tools = of_servers
                return dict(tools)
            self._description = render_description(of_servers.values())
        on_demand = {
            name: replace(tool, spec=replace(tool.spec, access="onDemand"))
            for name, tool in of_servers.items()
        }
        find = FindTool(_find_spec(self._description), tuple(of_servers.values()))
        return {**tools, **on_demand, FIND: find, CALL: _CALL_TOOL}


def is_too_much(specs: Sequence[ToolSpec]) -> bool:
    """Return whether requests should not have all of these."""
    if len(specs) > MAX_DIRECT_TOOLS:
        return True
    n_chars = sum(
        len(spec.name) + len(spec.description) + len(json.dumps(spec.input_schema))
        for spec in specs
    )
    return n_chars > MAX_DIRECT_TOKENS * _CHARS_PER_TOKEN


def render_description(tools: Iterable[McpTool]) -> str:
    """Describe `find_tools` with the names of all tools by server, as far as there is room."""
    names_by_server: dict[str, list[str]] = {}
    for tool in tools:
        names_by_server.setdefault(tool.server.name, []).append(tool.spec.name)
    share = _MAX_NAMES_CHARS // max(len(names_by_server), 1)
    lines = [_names_line(server, names, share) for server, names in names_by_server.items()]
    return "\n".join([_FIND_TEXT, *lines])


def _names_line(server: str, names: Sequence[str], max_chars: int) -> str:
    line = f"{server}:"
    for n, name in enumerate(names):
        short = name.removeprefix(f"{server}__")
        if len(line) + len(short) > max_chars:
            return f"{line} and {len(names) - n} more"
        line += f"{',' if n else ''} {short}"
    return line


def _find_spec(description: str) -> ToolSpec:
    query = {
        "type": "string",
        "description": "Words of names and descriptions, or exact names. Without it, list all.",
    }
    schema: Json = {
        "type": "object",
        "properties": {"query": query},
        "additionalProperties": False,
    }
    return ToolSpec(FIND, description, schema, read_only=True)


def find_matches(query: str, tools: Sequence[McpTool]) -> list[McpTool]:
    """Return the tools that the query names exactly, otherwise those with its words, best first."""
    names = {*re.split(r"[\s,;`'\"]+", query)}
    exact = [tool for tool in tools if names & {tool.spec.name, tool.selection.own_name}]
    if exact:
        return exact
    words = {*_WORD.findall(query.lower())}
    ranks = [(_rank(words, tool), tool) for tool in tools]
    return [tool for rank, tool in sorted(ranks, key=lambda each: -each[0]) if rank]


def _rank(words: Iterable[str], tool: McpTool) -> int:
    """Return how well a tool fits the words: those in its name count three times."""
    name, description = tool.spec.name.lower(), tool.spec.description.lower()
    return sum(3 * (word in name) + (word in description) for word in words)


def _summary(tool: McpTool) -> str:
    first_line = tool.spec.description.split("\n")[0]
    return f"{tool.spec.name}: {first_line[:_SUMMARY_CHARS]}"


def _details(tool: McpTool) -> str:
    schema = printable(json.dumps(tool.spec.input_schema, ensure_ascii=False))
    return f"{tool.spec.name}: {tool.spec.description}\n{schema}"
