"""`think`: room for the model to reason in the open. It has no effect."""

from __future__ import annotations

from oh_daemon.core.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.forms import harmless, takes


class ThinkTool:
    """Does nothing; the thought is in the log as an argument of the call."""

    spec = ToolSpec(
        name="think",
        description="Write down a thought: a plan, a doubt, what a result means. Nothing happens.",
        input_schema=takes(["thought"], thought={"type": "string"}),
        kind="think",
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        return harmless("think", args, "Think")

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        return ToolResult.of("Noted.")
