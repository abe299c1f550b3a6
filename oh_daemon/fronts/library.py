"""The Python API: `from oh_daemon import LLM, Agent, Tool, Conversation, Workspace`.

No settings file and no variable is read here: what a program passes is all there is. Nothing is
shared between conversations but what the program itself shares. Callbacks come from one thread of
the conversation, in order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import (
    AliasChoices,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
)

from oh_daemon.contract import messages as m
from oh_daemon.contract.errors import InvalidStateError, StorageError
from oh_daemon.contract.events import Decision, Record, Turn
from oh_daemon.contract.items import Approval, Contract, Delivery, TextPart
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.settings import Merged, Settings
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json, Model, ToolSpec
from oh_daemon.core.secrets import Masker
from oh_daemon.fronts.conversations import Conversations, House
from oh_daemon.fronts.models import DEMO, connect
from oh_daemon.fronts.trust import TrustBook
from oh_daemon.fronts.wiring import Recipe, Shared
from oh_daemon.tools.function import FunctionTool
from oh_daemon.workspace.shell import Shells
from oh_daemon.workspace.spawner import Spawner

BuiltinName = Literal["terminal", "edit", "grep", "glob", "list", "todo", "think", "finish"]
_FOREVER_S = 10.0**9
_BUILTIN: tuple[BuiltinName, ...] = get_args(BuiltinName)


class ConversationStatus(StrEnum):
    """What a conversation does now; the words of the protocol."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSING = "pausing"
    PAUSED = "paused"
    INTERRUPTING = "interrupting"
    ERROR = "error"
    FINISHED = "finished"
    CLOSED = "closed"


class LLM(LLMSettings):
    """A model and how it is reached. Frozen; its JSON leaves the key out."""


def _find_callback(value: object, info: ValidationInfo) -> Callable[..., object]:
    if callable(value):
        return value
    context = cast("dict[str, Any]", info.context or {})
    known: Mapping[str, Callable[..., object]] = context.get("callbacks", {})
    if isinstance(value, str) and value in known:
        return known[value]
    raise ValueError(f"no callback {value!r}; pass it in `callbacks` when loading from JSON")


Callback = Annotated[
    Callable[..., object],
    PlainValidator(_find_callback),
    PlainSerializer(lambda function: function.__name__, return_type=str),
]


class Tool(Contract):
    """A function that the model may call, with its arguments as keywords.

    It may return text, any JSON value, a `ToolResult` or a dict in MCP's form; what it raises is
    told to the model.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: str
    input_schema: Annotated[
        dict[str, Any],
        Field(validation_alias=AliasChoices("input_schema", "inputSchema")),
    ] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema. One that describes no object is wrapped as the one argument `value`."""
    callback: Callback
    read_only: bool = False
    """Changes nothing, so it never asks and may run beside other calls."""

    def bound(self) -> FunctionTool:
        """The tool as the agent's core takes it."""
        schema = self.input_schema
        if schema.get("type") != "object":
            schema = {"type": "object", "properties": {"value": schema}, "required": ["value"]}
        spec = ToolSpec(self.name, self.description, schema, read_only=self.read_only)
        return FunctionTool(spec, self.callback)


class BuiltinTool(Contract):
    """A tool that a conversation has by itself, by its name."""

    name: BuiltinName


class Agent(Contract):
    """Who answers: model, own tools, instructions, policy. Frozen, and the same after JSON."""

    llm: LLM
    tools: tuple[Tool | BuiltinTool, ...] = ()
    """Its own tools; once a built-in one is among them, no others of those are offered."""
    instructions: str = ""
    """More for the system prompt."""
    approval: Literal["askAlways", "askRisky", "askNever"] = "askNever"
    """With `askNever` protected places are refused instead of asked about."""
    max_steps: Annotated[int, Field(ge=1)] = 100
    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    tool_choice: Literal["auto", "required"] = "auto"
    """`required` holds for the first request of a turn."""

    @classmethod
    def from_json(cls, text: str, callbacks: Mapping[str, Callable[..., object]]) -> Self:
        """Load what `model_dump_json` gave; `callbacks` has the functions by their names."""
        return cls.model_validate_json(text, context={"callbacks": callbacks})


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command of `Workspace.run_command` gave."""

    output: str
    """Both streams as a terminal shows them, the middle cut out when it is long."""
    exit_code: int | None
    """None while the command goes on because the time was up."""


class Workspace:
    """A folder for agents to work in, and for the program to run commands in."""

    def __init__(self, path: str | Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is what commands start with; by default that of this process."""
        self.path = Path(path).absolute()
        self.environment = dict(os.environ if environment is None else environment)
        self._spawner = Spawner()
        self._shells = Shells(self._spawner, self.path, self.environment)

    @property
    def tools(self) -> tuple[BuiltinTool, ...]:
        """The tools that a conversation in this workspace has by itself, for `Agent(tools=…)`."""
        return tuple(BuiltinTool(name=name) for name in _BUILTIN)

    def run_command(self, command: str, timeout_s: float = _FOREVER_S) -> CommandResult:
        """Run `command` in one lasting shell. Safe from a tool's callback."""
        ran = self._shells.run(command, timeout_s=timeout_s, cancel=CancelToken())
        output = ran.output
        cut = f"\n[{output.n_cut_bytes} bytes cut]\n" if output.n_cut_bytes else ""
        if output.spill is not None:
            output.spill.unlink(missing_ok=True)
        return CommandResult(f"{output.head}{cut}{output.tail}", ran.exit_code)

    def close(self) -> None:
        """End the shell and whatever runs in it."""
        self._shells.close()
        self._spawner.close()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How a conversation stood when it was asked."""

    status: ConversationStatus
    title: str
    usage: Json
    pending: tuple[Approval, ...]


EventCallback = Callable[[Record], object]


class Conversation:
    """One agent at work in its own thread. Thread-safe; also a context manager.

    Reopen an earlier one by its id, with the same or another agent.
    """

    def __init__(
        self,
        agent: Agent,
        workspace: Workspace | str | Path | None = None,
        *,
        conversation_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Without a workspace there are no tools for files and the log is in memory only."""
        place = Workspace(workspace) if isinstance(workspace, str | Path) else workspace
        self._calls = _Callbacks()
        self._shared, self._conversations = _compose(agent, place, self._calls)
        folders = [place.path] if place else []
        recipe = _recipe(agent)
        if conversation_id is not None:
            live = self._conversations.open(conversation_id, folders, recipe=recipe, at_work=False)
        else:
            params = m.StartParams(ephemeral=place is None, metadata=dict(metadata or {}))
            live = self._conversations.start(params, folders, recipe=recipe, at_work=False)
        self._live = live
        self.id = live.id

    def register_callback(self, callback: EventCallback) -> Callable[[], None]:
        """Call `callback` with each event from now on; the result unregisters it."""
        return self._calls.add(callback)

    def start_thread(self) -> None:
        """Let the agent work; messages sent before wait for this."""
        self._live.agent.start()

    def send_message(self, text: str, delivery: Delivery = "auto") -> str:
        """Start a turn, or steer the running one; returns the message's id at once."""
        return self._live.conversation.send((TextPart(text=text),), delivery=delivery)["messageId"]

    def run(self, message: str | None = None, timeout_s: float | None = None) -> Turn:
        """Send `message`, or resume, and wait until the turn has ended or is on hold.

        Raises `TimeoutError`; the turn then goes on. Callbacks have seen all its events.
        """
        conversation = self._live.conversation
        self.start_thread()
        with conversation.changed:
            if message is None:
                sent = {"messageId": "", **conversation.resume()}
            else:
                sent = conversation.send((TextPart(text=message),))
            ended = conversation.turn_ended(sent["messageId"], sent.get("turnId"))
        turn = Turn.model_validate(ended.result(timeout_s))
        self._calls.drain(timeout_s)
        return turn

    def pause(self) -> None:
        """Stop after the step under way."""
        self._live.conversation.pause("step")

    def resume(self) -> None:
        """Go on with the paused turn."""
        self._live.conversation.resume()

    def interrupt(self, timeout_s: float | None = 10.0) -> None:
        """Stop now: the model's answer and the tool's processes; returns when it has ended."""
        self._live.conversation.interrupt().result(timeout_s)

    def respond(self, approval: Approval, *, allow: bool, feedback: str | None = None) -> None:
        """Answer an approval of `state.pending`, for this once."""
        decision = Decision(effect="allow" if allow else "reject")
        self._live.conversation.respond(approval.id, approval.digest, decision, feedback=feedback)

    @property
    def state(self) -> Snapshot:
        """How it stands now."""
        conversation = self._live.conversation
        with conversation.changed:
            state = conversation.state
            pending = tuple(Approval.model_validate(a) for a in state.approvals.values())
            return Snapshot(
                ConversationStatus(state.status), state.title, dict(state.usage), pending
            )

    @property
    def history(self) -> tuple[Record, ...]:
        """All events so far."""
        conversation = self._live.conversation
        lines = conversation.log.read_range(1, conversation.state.seq)
        return tuple(Record.model_validate_json(line) for line in lines)

    def close(self) -> None:
        """End the thread, the shells and the log. Events so far are delivered first."""
        self._conversations.close_all(2.0)
        self._shared.spawner.close()
        self._shared.commit.close()
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class _Callbacks:
    """Delivers events on a thread of its own, so that a callback may use the conversation."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Record | Future[None] | None] = SimpleQueue()
        self._callbacks: tuple[EventCallback, ...] = ()
        self._thread = threading.Thread(target=self._work, name="callbacks", daemon=True)
        self._thread.start()

    def add(self, callback: EventCallback) -> Callable[[], None]:
        self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            self._callbacks = tuple(each for each in self._callbacks if each is not callback)

        return remove

    def on_record(self, journal: Journal, line: bytes, record: Json) -> None:  # noqa: ARG002 - the listener's shape.
        if self._callbacks:
            self._queue.put(Record.model_validate(record))

    def on_delta(self, *_delta: object) -> None:
        """Callbacks get durable events only."""

    def on_halted(self, journal: Journal, error: StorageError) -> None:
        """The next call of the program raises it."""

    def drain(self, timeout_s: float | None) -> None:
        """Return when all events so far are delivered. A callback itself need not wait."""
        if threading.current_thread() is not self._thread:
            reached: Future[None] = Future()
            self._queue.put(reached)
            reached.result(timeout_s)

    def close(self) -> None:
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, Future):
                entry.set_result(None)
                continue
            for callback in self._callbacks:
                callback(entry)


def _compose(
    agent: Agent, workspace: Workspace | None, calls: _Callbacks
) -> tuple[Shared, Conversations]:
    key = agent.llm.api_key
    folder = workspace.path if workspace else None
    shared = Shared(
        trust=TrustBook(trusted={folder: True} if folder else {}),
        masker=Masker([key.get_secret_value()] if key else []),
        environment=workspace.environment if workspace else {},
        can_ask=lambda: agent.approval != "askNever",
        listeners=(calls,),
    )
    settings = Settings(
        model=agent.llm.model,
        approval=agent.approval,
        max_steps=agent.max_steps,
        max_cost_usd=agent.max_cost_usd,
        instructions=agent.instructions,
    )
    house = House(
        shared=shared,
        model_for=_model_for(agent.llm),
        default_model=lambda: agent.llm.model,
        settings=lambda _folder: Merged(settings, {}, ()),
        user_folder=(folder or Path()) / ".openhands",
        client_name="python",
    )
    return shared, Conversations(house)


def _recipe(agent: Agent) -> Recipe:
    names = tuple(tool.name for tool in agent.tools)
    chooses = any(isinstance(tool, BuiltinTool) for tool in agent.tools)
    return Recipe(
        _model_for(agent.llm),
        instructions=agent.instructions,
        tool_filter=m.ToolFilter(allow=names if chooses else None),
        more_tools=[tool.bound() for tool in agent.tools if isinstance(tool, Tool)],
        tool_choice=agent.tool_choice,
    )


def _model_for(llm: LLM) -> Callable[[str], Model]:
    model = DEMO if llm.model == DEMO.name else connect(llm)

    def find(name: str) -> Model:
        if name != llm.model:
            raise InvalidStateError(f"this agent has the model {llm.model!r}, not {name!r}")
        return model

    return find
