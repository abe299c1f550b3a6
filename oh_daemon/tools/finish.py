"""`finish`: the model says that the task is done. It ends the turn."""

from __future__ import annotations

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.core.calls import schema_flaw
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.forms import harmless, takes

_SHARED = ("$defs", "definitions")
"""Keywords that references reach from the root of a schema, so they stay at the root."""


class FinishTool:
    """Ends the turn; later calls of the same model answer never run."""

    def __init__(self, result_schema: Json | None = None) -> None:
        """`result_schema` describes a result that must come with the message.

        Raises `InvalidParamsError` when it is not a JSON Schema.
        """
        properties: Json = {"message": {"type": "string", "description": "For the user."}}
        shared: Json = {}
        if result_schema is not None:
            if flaw := schema_flaw(result_schema):
                raise InvalidParamsError.at("resultSchema", f"it is not a JSON Schema: {flaw}")
            properties["result"] = {k: v for k, v in result_schema.items() if k not in _SHARED}
            shared = {key: result_schema[key] for key in _SHARED if key in result_schema}
        self.spec = ToolSpec(
            name="finish",
            description=(
                "End the task and hand the word to the user. Say what you did and how you verified "
                "it; say so plainly when something could not be done."
            ),
            input_schema={**takes([*properties], **properties), **shared},
            read_only=True,
        )

    def plan(self, args: Json) -> Intent:
        footprint = Footprint(writes=False, paths=frozenset(), comes_last=True)
        return harmless("finish", args, "Finish", footprint=footprint)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        said = {"type": "text", "text": args["message"]}
        return ToolResult((said,), ends_turn="finished", value=args.get("result"))
