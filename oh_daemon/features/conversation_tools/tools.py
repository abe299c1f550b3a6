"""The tools `ask`, `todo`, `think` and `finish`, which have no effect but in the conversation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, cast

from msgspec.structs import replace

from oh_daemon.common.plain_text import clip_line, first_line
from oh_daemon.common.progress import PLAN_MARKS
from oh_daemon.kernel.ports import (
    Footprint,
    Intent,
    Json,
    Question,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from oh_daemon.kernel.prompt import true_rows
from oh_daemon.kernel.tool_calls import schema_flaw
from oh_daemon.kernel.tool_schemas import harmless, takes
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.items import PlanEntry

_TITLE_CHARS = 80


class AskTool:
    """The user's answer is the observation; later calls of the same model answer wait for it."""

    spec = ToolSpec(
        name="ask",
        description=(
            "Ask the user one question and wait for the answer, if any comes. Propose choices "
            "where you can."
        ),
        input_schema=takes(
            ["question"],
            question={"type": "string", "minLength": 1, "maxLength": 4000},
            choices={
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "minItems": 2,
                "maxItems": 10,
                "uniqueItems": True,
            },
        ),
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        title = f"Ask: {clip_line(first_line(args['question']), _TITLE_CHARS)}"
        question = Question(args["question"], tuple(args.get("choices", ())))
        # Calls after a question may depend on the answer.
        return harmless("ask", args, title, footprint=Footprint(), question=question)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        """End the turn with the question, as no client can answer now; a message may answer it."""
        content = {"type": "text", "text": question_text(args)}
        return ToolResult((content,), ends_turn="needsInput")


def question_text(args: Json) -> str:
    """Return the question with its choices, as Markdown."""
    return "\n".join((args["question"], *(f"- {choice}" for choice in args.get("choices", ()))))


_STATUSES: Mapping[str, Literal["pending", "inProgress", "completed"]] = {
    "pending": "pending",
    "in_progress": "inProgress",
    "completed": "completed",
}


class TodoTool:
    """Keeps no state: each call brings the whole list."""

    spec = ToolSpec(
        name="todo",
        description=(
            "Show the user your plan, and keep it up to date. Send the whole list each time, one "
            "task in_progress at most."
        ),
        input_schema=takes(
            ["tasks"],
            tasks={
                "type": "array",
                "maxItems": 200,
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "maxLength": 2000},
                        "status": {"enum": list(_STATUSES)},
                    },
                    "required": ["text", "status"],
                },
            },
        ),
        kind="think",
        read_only=True,
    )

    def plan(self, args: Json) -> Intent:
        tasks = cast("list[Json]", args["tasks"])
        entries = tuple(
            PlanEntry(id=str(n), text=task["text"], status=_STATUSES[task["status"]])
            for n, task in enumerate(tasks, 1)
        )
        n_done = sum(entry.status == "completed" for entry in entries)
        description = harmless("todo", args, f"Plan: {n_done} of {len(entries)} done")
        return replace(description, item_fields={"kind": "plan", "entries": entries})

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        tasks = cast("list[Json]", args["tasks"])
        rows = "\n".join(
            f"{PLAN_MARKS[_STATUSES[task['status']]]} {task['text']}" for task in tasks
        )
        return ToolResult.of(rows or "The plan is empty.")


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


_SHARED = ("$defs", "definitions")
"""Keywords that references reach from the root of a schema, so they stay at the root."""


_FINISH = """\
?!subagent End the task with your last message to the user.
?subagent End the task with your report."""


class FinishTool:
    """Ends the turn; later calls of the same model answer never run."""

    def __init__(self, result_schema: Json | None = None, facts: Collection[str] = ()) -> None:
        """`result_schema` describes a result that must come with the message.

        For `facts` see `true_rows`. Raises `InvalidParamsError` when it is not a JSON Schema.
        """
        properties: Json = {"message": {"type": "string"}}
        shared: Json = {}
        if result_schema is not None:
            if flaw := schema_flaw(result_schema):
                raise InvalidParamsError.at("resultSchema", f"it is not a JSON Schema: {flaw}")
            properties["result"] = {k: v for k, v in result_schema.items() if k not in _SHARED}
            shared = {key: result_schema[key] for key in _SHARED if key in result_schema}
        self.spec = ToolSpec(
            name="finish",
            description=true_rows(_FINISH, facts),
            input_schema={**takes([*properties], **properties), **shared},
            read_only=True,
        )

    def plan(self, args: Json) -> Intent:
        footprint = Footprint(writes=False, paths=frozenset(), comes_last=True)
        return harmless("finish", args, "Finish", footprint=footprint)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        part = {"type": "text", "text": args["message"]}
        return ToolResult((part,), ends_turn="finished", value=args.get("result"))
