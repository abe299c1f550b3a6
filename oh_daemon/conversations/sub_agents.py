"""Sub-agents: conversations that work for a parent conversation while its tool call waits.

They are ordinary conversations; this module starts, observes, stops and closes them. The parent's
worker runs all of it, and waits on one queue for events of the parent and of its sub-agents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.features.instructions.agent_files import find_agents
from oh_daemon.features.subagents.agents import (
    NOT_FOR_SUB_AGENTS,
    NamedAgent,
    SubAgentTask,
    TaskOutcome,
    choose_agents,
    inherited_options,
    outcome_of,
)
from oh_daemon.features.subagents.delegate import DelegateTool
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import History, Journal, Listener, new_id
from oh_daemon.kernel.ports import ToolContext
from oh_daemon.kernel.state import changes_made, merge_changes
from oh_daemon.kernel.turns import rest_before_step
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.content import TextPart
from oh_daemon.protocol.errors import DaemonError, InvalidStateError, StorageError, UserError
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import FileChange, SubagentItem
from oh_daemon.storage.memory_log import MemoryLog

MAX_AT_ONCE = 4
_REPORTED = frozenset(
    {
        *("usage.updated", "turn.completed", "turn.paused", "pause.requested", "options.changed"),
        "item.completed",
    }
)
_ROLE = """\
You are the sub-agent {name!r}. Another agent gave you your task. It sees your last message only, \
not your steps, and the user may not read along: work on your own, and end with a report of what \
you found or did, and of what you could not do."""
_RESULT = "Call `finish` at the end: the other agent gets your report with the `result`."


def agents_in(context: ConversationContext, folders: Sequence[Path]) -> dict[str, NamedAgent]:
    """Return by name the agents of trusted folders, those of the user, and the built-in ones."""
    trusted_folders = [folder for folder in folders if context.user.trust.of(folder) == "full"]
    return choose_agents(find_agents(trusted_folders, context.services.home))


def sub_agents_of(conversations: Conversations, parent_id: str) -> list[Journal]:
    """Return the sub-agents of this parent that are open now."""
    open_ones = (
        open_conversation.conversation.journal for open_conversation in conversations.all_open()
    )
    return [each for each in open_ones if each.state.parent_id == parent_id]


def equip(
    conversations: Conversations, parent: Conversation, folders: Sequence[Path], config: AgentConfig
) -> AgentConfig:
    """Add `delegate` to the recipe; limit that of a known sub-agent to the tools that it had."""
    if parent.state.parent_id is not None:
        had = (tool["name"] for tool in parent.state.agent["tools"])
        return replace(config, tool_filter=m.ToolFilter(allow=tuple(had)))
    if config.parent is not None or not folders:
        return config
    own = SubAgents(conversations, parent, folders, config)
    return replace(config, more_tools=(DelegateTool(own.agents, own.run), *config.more_tools))


class SubAgents(Struct, frozen=True):
    """The sub-agents of one conversation."""

    conversations: Conversations
    parent: Conversation
    folders: Sequence[Path]
    config: AgentConfig
    """The parent's recipe, without `delegate`."""

    def agents(self) -> Mapping[str, NamedAgent]:
        return agents_in(self.conversations.context, self.folders)

    def run(
        self, tasks: Sequence[SubAgentTask], context: ToolContext
    ) -> list[tuple[str, TaskOutcome]]:
        """Run all tasks to their end; meanwhile other conversations may use the parent's slot."""
        with self.conversations.context.services.slots.give_back(context.cancel):
            return _Round(self, tasks, context.cancel).run()

    def named_task(self, task: SubAgentTask) -> SubAgentTask:
        """Return the task with the name of its agent.

        Raises `DaemonError` when it resumes a conversation that is no sub-agent of this one.
        """
        if task.resume is None:
            return task
        state, _, _ = self.conversations.read(task.resume, self.folders)
        if state.parent_id != self.parent.id:
            raise InvalidStateError(f"{task.resume!r} is not a sub-agent of this conversation")
        return replace(task, agent=str(state.metadata.get("agent", task.agent)))

    def open(self, task: SubAgentTask, conversation_id: str) -> tuple[OpenConversation, bool]:
        """Return the conversation for a task, and whether it was opened for this task."""
        if task.resume is None:
            return self._start(task, conversation_id), True
        conversations = self.conversations
        was_open = conversations.find_open(conversation_id) is not None
        config = replace(self.config, parent=self.parent, result_schema=None)
        open_conversation = conversations.open(conversation_id, self.folders, config=config)
        self.align(open_conversation.conversation, task.agent)
        return open_conversation, not was_open

    def _start(self, task: SubAgentTask, conversation_id: str) -> OpenConversation:
        agent, state = self.agents()[task.agent], self.parent.state
        role = _ROLE.format(name=agent.name)
        result = None if task.result_schema is None else _RESULT
        config = replace(
            self.config,
            role="\n\n".join(filter(None, (role, result, agent.instructions))),
            result_schema=task.result_schema,
            tool_filter=m.ToolFilter(allow=self._tools_for(agent)),
            tool_choice="auto",
            parent=self.parent,
        )
        params = m.StartParams(
            title=task.title,
            options={
                **inherited_options(_mode_of(agent), state.options_now),
                "model": self._model(agent),
            },
            max_steps=state.max_steps,
            max_cost_usd=state.max_cost_usd,
            ephemeral=isinstance(self.parent.journal.log, MemoryLog),
            metadata={"agent": agent.name},
        )
        return self.conversations.start(
            params, self.folders, conversation_id=conversation_id, config=config
        )

    def _tools_for(self, agent: NamedAgent) -> tuple[str, ...]:
        """Return what the agent may use of the tools that the parent is offered."""
        names = self.conversations.require_open(self.parent.id).runtime.tools.keys()
        tool_names = names if agent.tools is None else {*agent.tools, "finish"}
        return tuple(n for n in names if n in tool_names and n not in NOT_FOR_SUB_AGENTS)

    def _model(self, agent: NamedAgent) -> str:
        """Return the model of the agent's file if the user offers it, otherwise the parent's."""
        options = self.conversations.options_of(self.parent.journal)
        models = {c.value for option in options if option.id == "model" for c in option.choices}
        return agent.model if agent.model in models else self.parent.state.options_now["model"]

    def align(self, child: Conversation, agent_name: str) -> None:
        """Apply the parent's options, which the user may change, from the child's next step on."""
        agent = self.agents().get(agent_name)
        with child.journal.condition:
            own_mode = _mode_of(agent) if agent else child.state.options["mode"]
            options = inherited_options(own_mode, self.parent.state.options_now)
            if not options.items() <= child.state.options.items():
                child.journal.append(e.OptionsChanged(values=options))

    def over_budget(self) -> str | None:
        """Return the name of the limit but `maxSteps` that allows the parent no step, or None."""
        state, open_conversation = self.parent.state, self.conversations.find_open(self.parent.id)
        # A parent that is being closed stops its sub-agents anyway.
        beyond_turn = (
            open_conversation.runtime.budget.rest_before_step(state)
            if open_conversation is not None
            else None
        )
        reason = beyond_turn or rest_before_step(state)
        return (
            reason.stop_reason if reason is not None and reason.stop_reason != "maxSteps" else None
        )

    def close(self, open_conversation: OpenConversation) -> None:
        """Close a sub-agent, unless a client has it open or has written to it."""
        is_watched = self.conversations.context.client.is_watched(open_conversation.id)
        if not open_conversation.conversation.state.queue and not is_watched:
            with suppress(UserError):  # The user or the daemon closed it.
                self.conversations.close(open_conversation.id)


def _mode_of(agent: NamedAgent) -> str | None:
    return "plan" if agent.only_reads else None


class _Child(Struct):
    """A task, its item in the parent's log, and its conversation."""

    position: int
    task: SubAgentTask
    item: SubagentItem
    open_conversation: OpenConversation
    is_ours: bool
    turn_id: str | None = None


_Report: TypeAlias = "plain.Record | StorageError | None"
"""What is new in a conversation: a record, that its log halted, or that the call was cancelled."""


class _Round(Listener):
    """Runs the tasks of one call until all are at rest; listens to the parent and all children."""

    def __init__(self, host: SubAgents, tasks: Sequence[SubAgentTask], cancel: CancelToken) -> None:
        self._host = host
        self._parent = host.parent
        self._tasks = tasks
        self._cancel = cancel
        self._pending_tasks = deque(enumerate(tasks))
        self._at_work: dict[str, _Child] = {}
        self._outcomes: dict[int, tuple[str, TaskOutcome]] = {}
        self._stopped_by: str | None = None
        self._reports: SimpleQueue[tuple[str, _Report]] = SimpleQueue()

    # As a listener: called under the lock of the conversation that reports

    def on_record(self, history: History, line: bytes, record: plain.Record) -> None:  # noqa: ARG002 - the listener's shape.
        if record["event"]["type"] in _REPORTED:
            self._reports.put((history.id, record))

    def on_halted(self, history: History, error: StorageError) -> None:
        self._reports.put((history.id, error))

    # On the parent's worker

    def run(self) -> list[tuple[str, TaskOutcome]]:
        parent = self._parent
        parent.journal.listeners.append(self)
        forget = self._cancel.on_cancel(lambda: self._reports.put((parent.id, None)))
        if parent.state.pause_requested is not None:
            self._stopped_by = "user"
        try:
            while self._start_waiting():
                self._on_report(*self._reports.get())
        finally:
            forget()
            parent.journal.listeners.remove(self)
            for child in list(self._at_work.values()):
                self._leave(child)
        return [self._outcomes[position] for position in range(len(self._tasks))]

    def _start_waiting(self) -> bool:
        """Start waiting tasks in free places; return whether any task is at work."""
        while self._pending_tasks and (self._stopped_by or len(self._at_work) < MAX_AT_ONCE):
            position, task = self._pending_tasks.popleft()
            if self._stopped_by:
                self._outcomes[position] = (
                    task.resume or "",
                    TaskOutcome("cancelled", "notStarted", ""),
                )
                continue
            try:
                task = self._host.named_task(task)
            except DaemonError as exc:
                self._outcomes[position] = (
                    task.resume or "",
                    TaskOutcome("failed", exc.kind, exc.message),
                )
                continue
            self._start(position, task)
        return bool(self._at_work)

    def _start(self, position: int, task: SubAgentTask) -> None:
        parent, conversation_id = self._parent, task.resume or new_id()
        item = SubagentItem(
            id=new_id(),
            status="running",
            conversation_id=conversation_id,
            agent=task.agent,
            title=task.title,
            started_at=parent.journal.clock.now(),
        )
        # From here on, the log names the conversation, whatever happens.
        parent.journal.append(e.ItemStarted(item=item))
        parent.journal.log.sync()
        try:
            open_conversation, is_ours = self._host.open(task, conversation_id)
        except DaemonError as exc:
            self._end(position, item, TaskOutcome("failed", exc.kind, exc.message))
            return
        child = self._at_work[conversation_id] = _Child(
            position, task, item, open_conversation, is_ours
        )
        open_conversation.conversation.journal.listeners.append(self)
        try:
            child.turn_id = open_conversation.conversation.send((TextPart(text=task.text),)).get(
                "turnId"
            )
        except DaemonError as exc:
            self._leave(child)
            self._end(position, item, TaskOutcome("failed", exc.kind, exc.message))

    def _on_report(self, conversation_id: str, report: _Report) -> None:
        child = self._at_work.get(conversation_id)
        if conversation_id == self._parent.id:
            self._follow_parent(report)
        elif child is None or report is None:
            return
        elif isinstance(report, StorageError):
            self._on_idle(child, {"reason": report.message})
        else:
            self._follow(child, report["event"], report.get("turnId"))

    def _follow_parent(self, report: _Report) -> None:
        if report is None:
            if self._parent.state.pause_requested != "now":
                self._stop("cancelled")
        elif isinstance(report, StorageError):
            return
        elif report["event"]["type"] == "pause.requested":
            self._stop("user", report["event"]["when"])
        elif report["event"]["type"] == "options.changed":
            for child in self._at_work.values():
                self._host.align(child.open_conversation.conversation, child.task.agent)

    def _follow(self, child: _Child, event: plain.Event, turn_id: str | None) -> None:
        if event["type"] == "usage.updated":
            self._bill(event)
        elif event["type"] == "item.completed":
            self._take_changes(child.open_conversation.conversation, changes_made(event["item"]))
        elif event["type"] == "checkpoint.created":
            self._take_changes(child.open_conversation.conversation, event.get("changes", ()))
        elif child.turn_id not in {None, turn_id}:
            return  # It belongs to a turn that was under way before the task.
        elif event["type"] == "turn.completed":
            self._on_idle(child, event["turn"])
        elif event["type"] == "turn.paused" and (event["reason"] != "user" or self._stopped_by):
            # A user who pauses only this sub-agent means to resume it, so the parent waits.
            self._on_idle(child, event)

    def _bill(self, event: plain.UsageUpdated) -> None:
        """Charge a sub-agent's cost to the parent; stop all when the parent reaches a limit."""
        usage = model_of(e.UsageUpdated, event)
        own = {"purpose": "subagent", "context_used": 0, "context_size": None}
        self._parent.journal.append(usage.model_copy(update=own))
        limit = self._host.over_budget()
        if limit is not None and not self._stopped_by:
            self._stop(limit)

    def _take_changes(self, child: Conversation, child_changes: Sequence[plain.FileChange]) -> None:
        """Add files that a sub-agent changed to the review of the parent's turn."""
        if not child_changes:
            return
        parent = self._parent
        changes = tuple(model_of(FileChange, change) for change in child_changes)
        for sha256 in {s for c in changes for s in (c.sha256_before, c.sha256_after) if s}:
            parent.journal.log.put_blob(child.journal.log.read_blob(sha256))
        with parent.journal.condition:
            files = merge_changes(parent.state.changes, changes)
            parent.journal.append(e.ChangesUpdated(files=files, by_subagent=changes))

    def _stop(self, reason: str, pause: Literal["step", "now"] | None = None) -> None:
        """Stop all sub-agents; each reports when it has come to rest."""
        self._stopped_by = reason
        for child in list(self._at_work.values()):
            conversation = child.open_conversation.conversation
            if pause is None:
                conversation.interrupt()
            elif conversation.turns.is_paused:
                self._on_idle(child, {"reason": "user"})
            else:
                with suppress(InvalidStateError):  # Its turn has just ended.
                    conversation.pause(pause)

    def _on_idle(self, child: _Child, turn: Mapping[str, object]) -> None:
        outcome = outcome_of(turn, child.open_conversation.conversation.state)
        if outcome.status == "cancelled" and self._stopped_by not in {None, "cancelled", "user"}:
            outcome = replace(outcome, status="failed", reason=self._stopped_by)
        self._leave(child)
        self._end(child.position, child.item, outcome)

    def _end(self, position: int, item: SubagentItem, outcome: TaskOutcome) -> None:
        self._outcomes[position] = item.conversation_id, outcome
        ending = {"status": outcome.status, "reason": outcome.reason}
        now = self._parent.journal.clock.now()
        completed_item = item.model_copy(update={**ending, "ended_at": now})
        self._parent.journal.append(e.ItemCompleted(item=completed_item))

    def _leave(self, child: _Child) -> None:
        self._at_work.pop(child.item.conversation_id, None)
        with suppress(ValueError):
            child.open_conversation.conversation.journal.listeners.remove(self)
        if child.is_ours:
            self._host.close(child.open_conversation)
