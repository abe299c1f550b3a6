"""`delegate`: tasks for sub-agents, each in a conversation of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oh_daemon.common.plain_text import clip_line, first_line
from oh_daemon.features.subagents.agents import (
    NamedAgent,
    SubAgentTask,
    TaskOutcome,
    render_outcome,
)
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.tool_schemas import TEXT, harmless, takes
from oh_daemon.protocol.errors import ToolError

_TITLE_CHARS = 80
_DEFAULT_AGENT = "general"
_DESCRIPTION = """\
Give tasks to sub-agents. Each works in the same folders with a context of its own, and you get \
its last message. Worth it for searches that would \
fill your context, and for independent pieces of work: tasks of one call run side by side, four at \
a time, so they must not change the same files.
A sub-agent knows nothing of this conversation: say all that it needs, and what it shall report.
resume: the id of a conversation from an earlier result; `task` is then its next message.
result_schema: for a new task, the JSON Schema of a result that you want beside its last message.
Agents:
"""
_TASK = takes(
    ["task"],
    task=TEXT,
    title={"type": "string", "description": "three to six words for the user"},
    agent={"type": "string", "description": f"default {_DEFAULT_AGENT}"},
    resume=TEXT,
    result_schema={"type": "object"},
)
_SCHEMA = takes(["tasks"], tasks={"type": "array", "minItems": 1, "maxItems": 16, "items": _TASK})

Agents = Callable[[], Mapping[str, NamedAgent]]
RunTasks = Callable[[Sequence[SubAgentTask], ToolContext], Sequence[tuple[str, TaskOutcome]]]
"""Runs all tasks to their end; returns conversation ids and outcomes in the order of the tasks."""


class DelegateTool:
    """The tool itself changes nothing: what sub-agents do goes through their own policy."""

    def __init__(self, agents: Agents, run_tasks: RunTasks) -> None:
        self._agents = agents
        self._run_tasks = run_tasks
        rows = "\n".join(f"- {agent.name}: {agent.description}" for agent in agents().values())
        self.spec = ToolSpec("delegate", _DESCRIPTION + rows, _SCHEMA, read_only=True)

    def plan(self, args: Json) -> Intent:
        tasks, agents = _tasks(args), self._agents()
        if problem := _problem(tasks, agents):
            raise ToolError(f"No task was started: {problem}.")
        # Nothing else runs meanwhile, so sub-agents see no half-done work of this agent.
        footprint = Footprint(writes=False, comes_last=True)
        title = f"Delegate: {', '.join(task.title for task in tasks)}"
        return harmless("delegate", args, title, footprint=footprint)

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        tasks = _tasks(args)
        outcomes = self._run_tasks(tasks, context)
        rows = [(task, *each) for task, each in zip(tasks, outcomes, strict=True)]
        return ToolResult(
            tuple({"type": "text", "text": render_outcome(*row)} for row in rows),
            is_error=all(outcome.status != "completed" for _, outcome in outcomes),
            meta={"subagents": [_meta(*row) for row in rows]},
        )


def _problem(tasks: Sequence[SubAgentTask], agents: Mapping[str, NamedAgent]) -> str | None:
    resumed_ids = [task.resume for task in tasks if task.resume is not None]
    agent_names = {task.agent: None for task in tasks if task.resume is None}
    if unknown := [repr(agent) for agent in agent_names if agent not in agents]:
        return f"there is no agent {', '.join(unknown)}; there are {', '.join(agents)}"
    if any(task.resume and task.result_schema for task in tasks):
        return "a task that is resumed keeps its result_schema; leave that out"
    if len(set(resumed_ids)) < len(resumed_ids):
        return "two tasks resume the same conversation; put them into one message"
    return None


def _tasks(args: Json) -> list[SubAgentTask]:
    return [
        SubAgentTask(
            text=arguments["task"],
            title=clip_line(first_line(arguments.get("title") or arguments["task"]), _TITLE_CHARS),
            agent=arguments.get("agent", _DEFAULT_AGENT),
            resume=arguments.get("resume"),
            result_schema=arguments.get("result_schema"),
        )
        for arguments in args["tasks"]
    ]


def _meta(task: SubAgentTask, conversation_id: str, outcome: TaskOutcome) -> Json:
    result = {"conversationId": conversation_id, "agent": task.agent, "status": outcome.status}
    more = {"reason": outcome.reason, "result": outcome.result}
    return {**result, **{key: value for key, value in more.items() if value is not None}}
