"""A core conversation for tests: a log in memory, a clock that stands still, and an agent whose
model is the HTTP fake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from fake_llm import FakeLLM, Script
from model_calls import retrying
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.approval.consent import Consent
from oh_daemon.features.approval.judgement import NO_POLICY, Policy
from oh_daemon.features.condensation.condensation import Condensation
from oh_daemon.features.conversation_tools.tools import FinishTool
from oh_daemon.features.hooks.hooks import NO_HOOKS, HookPoints, HookRunner
from oh_daemon.features.stuck.stuck import find_stuck
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import WatchFiles
from oh_daemon.kernel.function_tool import FunctionTool
from oh_daemon.kernel.ports import EventLog, Json, Model, Tool, ToolSpec
from oh_daemon.kernel.runtime import Runtime, Slots
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import turn_end
from oh_daemon.protocol import events as e
from oh_daemon.protocol.content import Part, TextPart
from oh_daemon.protocol.settings import Condenser
from oh_daemon.storage.memory_log import MemoryLog

DEADLINE_S = 120
"""So long because the first call imports litellm, which takes a while on a busy machine."""
NOW = "2026-01-02T03:04:05.678Z"
PROMPT = "Be good."
SECRET = "hush-0123456789"
OPTIONS = {"mode": "ask", "approval": "askNever", "model": "fake"}
ATTENDED = replace(NO_POLICY, can_ask=lambda: True)
"""A policy with a user who can be asked."""
CREATED = e.ConversationCreated(
    title="",
    folders=(),
    agent=e.AgentInfo(model="fake", label="fake", system_prompt=PROMPT, tools=()),
    options=OPTIONS,
    max_steps=20,
)


class StandingClock:
    def now(self) -> str:
        return NOW

    def monotonic(self) -> float:
        return 0.0


class NoContext:
    """A `MessageContext` that adds nothing to messages."""

    def seen_in_editor(self) -> dict[str, str]:
        return {}

    def environment(self, _options: Mapping[str, str]) -> dict[str, str]:
        return {}

    def written_out(self, content: Sequence[Part]) -> tuple[Part, ...]:
        return tuple(content)


def new_conversation(log: EventLog | None = None, **changes: Any) -> Conversation:
    """Return a conversation that was just created; `changes` override fields of its first event."""
    clock, masker = StandingClock(), Masker([SECRET])
    conversation = Conversation(
        State("c1"), log or MemoryLog(), NoContext(), epoch="e1", clock=clock, masker=masker
    )
    conversation.journal.append(CREATED.model_copy(update=changes))
    return conversation


def text(words: str) -> tuple[TextPart, ...]:
    return (TextPart(text=words),)


def records(conversation: Conversation) -> list[Any]:
    """Return the records of the log so far."""
    lines = conversation.journal.log.read_range(1, conversation.state.seq)
    return [orjson.loads(line) for line in lines]


def types(conversation: Conversation) -> list[str]:
    return [record["event"]["type"] for record in records(conversation)]


def tool(
    name: str, run: Callable[..., object], *, read_only: bool = False, **properties: Json
) -> FunctionTool:
    schema: Json = {"type": "object", "properties": properties, "required": list(properties)}
    return FunctionTool(ToolSpec(name, f"The tool {name}.", schema, read_only=read_only), run)


@dataclass
class Heard:
    """A listener that keeps what it hears, and lets a test wait for it."""

    deltas: list[tuple[str, int, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    condition: threading.Condition = field(default_factory=threading.Condition)

    def on_record(self, _journal: object, _line: bytes, record: Any) -> None:
        with self.condition:
            self.events.append(record["event"])
            self.condition.notify_all()

    def on_delta(self, _journal: object, _id: str, channel: str, offset: int, text: str) -> None:
        with self.condition:
            self.deltas.append((channel, offset, text))
            self.condition.notify_all()

    def on_halted(self, _journal: object, error: Exception) -> None:
        with self.condition:
            self.errors.append(str(error))
            self.condition.notify_all()

    def wait_for(self, condition: Callable[[Heard], Any]) -> Any:
        with self.condition:
            assert self.condition.wait_for(lambda: condition(self), DEADLINE_S), self.events[-3:]
            return condition(self)

    def event(self, kind: str, *, nth: int = 1) -> Json:
        """Wait for the nth event of a type and return it."""

        def find_event(_heard: Heard) -> Json | None:
            of_kind = [event for event in self.events if event["type"] == kind]
            return of_kind[nth - 1] if len(of_kind) >= nth else None

        return self.wait_for(find_event)


@dataclass
class Work:
    """An agent at work: its conversation, its model, and what a client hears."""

    conversation: Conversation
    agent: AgentLoop
    llm: FakeLLM
    heard: Heard

    def run(self, words: str = "go") -> Any:
        """Send a message and wait for the end of its turn."""
        with self.conversation.journal.condition:
            receipt = self.conversation.send(text(words))
            turn_future = turn_end(
                self.conversation.journal, receipt["messageId"], receipt.get("turnId")
            )
        return turn_future.result(DEADLINE_S)

    def resume(self) -> Any:
        """Resume, and wait for the end of the turn."""
        journal = self.conversation.journal
        with journal.condition:
            turn_id = self.conversation.resume()["turnId"]

            def read(record: Any) -> Any:
                is_end = record["event"]["type"] == "turn.completed"
                return record["event"]["turn"] if is_end and record["turnId"] == turn_id else None

            ended = journal.await_record(read)
        return ended.result(DEADLINE_S)

    def switch(self, model: str) -> None:
        self.conversation.journal.append(e.OptionsChanged(values={"model": model}))

    def items(self, kind: str) -> list[Any]:
        return [item for item in self.conversation.state.items if item["kind"] == kind]


@dataclass
class Tools:
    """A `Toolbox` whose tools stay the same."""

    tools: Mapping[str, Tool]

    def refresh(self, _cancel: CancelToken) -> None: ...


def runtime_of(
    conversation: Conversation,
    model_for: Callable[[str], Model],
    *tools: Tool,
    policy: Policy = NO_POLICY,
    hooks: HookRunner = NO_HOOKS,
    condenser: Condenser = "pipeline",
    **others: Any,
) -> Runtime:
    """Return a runtime with these tools and features; `others` are further fields of it."""
    journal = conversation.journal
    points = HookPoints(journal, hooks)
    fields: dict[str, Any] = {
        "command_changes": None,
        "watch_files": None,
        "tool_choice": "auto",
        "titles": False,
        **others,
    }
    return Runtime(
        model_for=model_for,
        toolbox=Tools({each.spec.name: each for each in tools}),
        features=(),
        approval=Consent(conversation, policy, points),
        hooks=points,
        questions=(),
        condenser=Condensation(journal, condenser, points.before_condensing),
        find_stuck=find_stuck,
        slots=Slots(),
        on_idle=lambda: None,
        **fields,
    )


@contextmanager
def at_work(
    script: Script,
    *tools: Tool,
    policy: Policy = NO_POLICY,
    hooks: HookRunner = NO_HOOKS,
    max_attempts: int = 2,
    log: EventLog | None = None,
    tool_choice: Any = "auto",
    condenser: Condenser = "pipeline",
    window: int | None = None,
    titles: bool = False,
    watch: WatchFiles | None = None,
    other_steps: Mapping[str, Json] | None = None,
    **changes: Any,
) -> Generator[Work]:
    """Run an agent that has these tools and `finish`, and whose model follows the script.

    `other_steps` maps the names of further models behind the same fake to their settings.
    """
    conversation = new_conversation(log, **changes)
    heard = Heard()
    conversation.journal.listeners.append(heard)
    with FakeLLM(script) as fake:
        models: dict[str, Model] = {"fake": retrying(fake, max_attempts, context_window=window)}
        models |= {n: retrying(fake, **fields) for n, fields in (other_steps or {}).items()}
        runtime = runtime_of(
            conversation,
            models.__getitem__,
            *tools,
            FinishTool(),
            policy=policy,
            hooks=hooks,
            tool_choice=tool_choice,
            condenser=condenser,
            titles=titles,
            watch_files=watch,
        )
        agent = AgentLoop(conversation, runtime)
        agent.start()
        try:
            yield Work(conversation, agent, fake, heard)
        finally:
            agent.close(DEADLINE_S)
