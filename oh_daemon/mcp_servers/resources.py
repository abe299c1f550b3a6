"""The tool with which the agent reads the resources of servers: files, tables, pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.contract.errors import ToolError
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.mcp_servers.server import RunOnLoop, Server
from oh_daemon.workspace.paths import shown

_MAX_LISTED = 500
_NAME = "mcp_resource"


@dataclass(frozen=True, slots=True)
class ResourceTool:
    """Lists or reads resources of these servers; tools for the same servers compare equal."""

    servers: Mapping[str, Server]
    run_on_loop: RunOnLoop

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            _NAME,
            "Read a resource of an MCP server by its URI; without `uri` list what it has. "
            "Also reads what a `<resource uri=…/>` in the result of its tools points at.",
            {
                "type": "object",
                "properties": {
                    "server": {"type": "string", "enum": sorted(self.servers)},
                    "uri": {"type": "string", "description": "As listed, or made from a template."},
                },
                "required": ["server"],
                "additionalProperties": False,
            },
            read_only=True,
        )

    def plan(self, args: Json) -> Intent:
        title = f"{args['server']}: {args.get('uri', 'list resources')}"
        subject = ToolSubject(tool=_NAME, args=args)
        return Intent(title, subject, "low", footprint=Footprint(writes=False))

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        server = self.servers[args["server"]]
        if "uri" not in args:
            listed = self.run_on_loop(server.resources(), context.cancel)
            return ToolResult.of(_render_list(listed))
        read = self.run_on_loop(server.read_resource(args["uri"]), context.cancel)
        if not read.get("contents"):
            raise ToolError(f"{args['server']!r} has nothing at {args['uri']!r}")
        return ToolResult(tuple(map(_part, read["contents"])))


def _render_list(listed: Sequence[Json]) -> str:
    lines = [
        f"{shown(str(each.get('uri') or each.get('uriTemplate')))}  {shown(str(each.get('name')))}"
        f"  {shown(str(each.get('description') or ''))[:200]}".rstrip()
        for each in listed[:_MAX_LISTED]
    ]
    if len(listed) > _MAX_LISTED:
        lines.append(f"({len(listed) - _MAX_LISTED} more are not listed)")
    return "\n".join(lines) or "(no resources)"


def _part(read: Json) -> Json:
    mime_type = str(read.get("mimeType") or "")
    if "blob" in read and mime_type.startswith("image/"):
        return {"type": "image", "mimeType": mime_type, "data": read["blob"]}
    return {"type": "resource", "resource": read}
