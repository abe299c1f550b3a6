"""`finish`: the model says that the task is done. It ends the turn."""

from __future__ import annotations

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec


class FinishTool:
    """Calls that come after it in the same answer never run."""

    spec = ToolSpec(
        name="finish",
        description=(
            "End the task and hand the word to the user. Say what you did and how you verified it; "
            "say so plainly when something could not be done."
        ),
        input_schema={
            "type": "object",
            "properties": {"message": {"type": "string", "description": "For the user."}},
            "required": ["message"],
            "additionalProperties": False,
        },
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        subject = ToolSubject(tool="finish", args=args)
        footprint = Footprint(writes=False, paths=frozenset(), comes_last=True)
        return Intent("Finish", subject, "low", footprint=footprint)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        return ToolResult(({"type": "text", "text": args["message"]},), ends_turn="finished")
