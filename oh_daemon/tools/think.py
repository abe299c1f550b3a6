"""`think`: room for the model to reason in the open. It has no effect."""

from __future__ import annotations

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec

NOTHING = Footprint(writes=False, paths=frozenset())


class ThinkTool:
    """Returns at once; the thought is in the log as the call's arguments."""

    spec = ToolSpec(
        name="think",
        description="Write down a thought: a plan, a doubt, what a result means. Nothing happens.",
        input_schema={
            "type": "object",
            "properties": {"thought": {"type": "string"}},
            "required": ["thought"],
            "additionalProperties": False,
        },
        kind="think",
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        subject = ToolSubject(tool="think", args=args)
        return Intent("Think", subject, "low", footprint=NOTHING)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        return ToolResult.of("Noted.")
