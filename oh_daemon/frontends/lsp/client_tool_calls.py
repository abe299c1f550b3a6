"""Tools that the client runs: a call is sent as `tool/call`, its result has the form of MCP's.

They are treated like the tools of an MCP server. Invariant: whatever the client answers, and even
if it does not answer, the model gets exactly one result that says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct
from pydantic import ValidationError

from oh_daemon.conversations.conversation_runtime import BUILTIN
from oh_daemon.features.mcp.offer import MAX_SCHEMA_BYTES, input_schema_problem
from oh_daemon.jsonrpc.client import Client, ClientAnswer
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.base import parse_strictly, problem_in
from oh_daemon.protocol.client_tools import ClientTool, ToolCallResult
from oh_daemon.protocol.errors import InvalidParamsError, ToolError
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.paths import printable

RESERVED = frozenset(BUILTIN) | {
    *("apply_patch", "diagnostics", "lookup", "mcp_resource", "memory", "rename", "skill"),
}
"""Names of the daemon's own tools, whether a conversation is offered them or not."""


class ToolOfClient(Struct, frozen=True):
    """Implements `kernel.ports.Tool`. Two tools with the same description are equal."""

    spec: ToolSpec
    timeout_s: float
    definition: str
    client: Client

    def plan(self, args: Json) -> Intent:
        """Rate the call as low risk if the client says that the tool only reads, else as medium."""
        return Intent(
            self.spec.name,
            ToolSubject(tool=self.spec.name, args=args, definition=self.definition),
            "low" if self.spec.read_only else "medium",
            footprint=Footprint(writes=not self.spec.read_only),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        params = {
            "conversationId": context.conversation_id,
            "itemId": context.item_id,
            "name": self.spec.name,
            "arguments": args,
        }
        answer = self.client.request(
            "tool/call", params, deadline_s=self.timeout_s, cancel=context.cancel
        )
        return _result(self.spec.name, answer)


class ClientTools:
    """The tools that this client gave, by conversation. Thread-safe: a change is one write."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tools: dict[str, tuple[ToolOfClient, ...]] = {}

    def of(self, conversation_id: str) -> Sequence[ToolOfClient]:
        return self._tools.get(conversation_id, ())

    def take(self, conversation_id: str, tools: Sequence[ClientTool] | None) -> None:
        """Replace the conversation's tools; None keeps them. Raises `InvalidParamsError`."""
        if tools is None:
            return
        names = [tool.name for tool in tools]
        for n, tool in enumerate(tools):
            if problem := _problem(tool, names[:n]):
                raise InvalidParamsError.at(f"clientTools.{n}", f"{tool.name!r}: {problem}")
        self._tools[conversation_id] = tuple(self._client_tool(tool) for tool in tools)

    def _client_tool(self, tool: ClientTool) -> ToolOfClient:
        spec = ToolSpec(
            tool.name,
            printable(tool.description, allowed="\n\t") + "\n(a tool of the user's client)",
            {"type": "object", "properties": {}, **tool.input_schema},
            read_only=tool.annotations.get("readOnlyHint") is True,
            is_foreign=True,
        )
        definition = sha256_of(tool.model_dump_json())
        return ToolOfClient(spec, tool.timeout_s, definition, self._client)


def _problem(tool: ClientTool, earlier: Sequence[str]) -> str | None:
    if tool.name in RESERVED:
        return "the daemon has a tool of this name; take another one"
    if tool.name in earlier:
        return "it is given twice"
    if len(json.dumps(tool.input_schema)) > MAX_SCHEMA_BYTES:
        return f"its input schema is longer than {MAX_SCHEMA_BYTES >> 10} KiB"
    if tool.input_schema.get("type", "object") != "object":
        return "its input schema must be that of an object"
    return input_schema_problem(tool.input_schema)


def _result(name: str, answer: ClientAnswer) -> ToolResult:
    match answer.outcome:
        case "gone":
            raise ToolError(f"the client that runs {name} is gone; its effects are unknown")
        case "deadline":
            raise ToolError(f"{answer.message}; {name} may still be at work in the client")
        case "refused":
            raise ToolError(f"the client did not run {name}: {answer.message}")
        case "answered":
            pass
    try:
        result = parse_strictly(ToolCallResult, answer.result)
    except ValidationError as exc:
        wrong = problem_in(exc, label="the result")
        raise ToolError(f"the client's answer for {name} is not a tool result: {wrong}") from exc
    content = result.content
    if not content and result.structured_content is not None:
        content = ({"type": "text", "text": json.dumps(result.structured_content)},)
    return ToolResult(content, result.is_error)
