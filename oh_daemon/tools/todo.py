"""`todo`: the agent's plan, which editors show as a checklist. The last list is the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from oh_daemon.contract.items import PlanEntry
from oh_daemon.core.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.forms import harmless, takes

_STATUSES = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}
_MARKS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


class TodoTool:
    """Keeps no state: each call brings the whole list."""

    spec = ToolSpec(
        name="todo",
        description=(
            "Show the user your plan. Send the whole list each time, one task in_progress at most. "
            "Use it for work of three steps or more, and keep it up to date."
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
            PlanEntry.model_validate(
                {"id": str(n), "text": task["text"], "status": _STATUSES[task["status"]]}
            )
            for n, task in enumerate(tasks, 1)
        )
        done = sum(entry.status == "completed" for entry in entries)
        shown = harmless("todo", args, f"Plan: {done} of {len(entries)} done")
        return replace(shown, item_fields={"kind": "plan", "entries": entries})

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        tasks = cast("list[Json]", args["tasks"])
        rows = "\n".join(f"{_MARKS[task['status']]} {task['text']}" for task in tasks)
        return ToolResult.of(rows or "The plan is empty.")
