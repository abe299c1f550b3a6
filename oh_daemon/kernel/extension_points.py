"""Everything that can be plugged into the kernel. `kernel.runtime.Runtime` holds the parts.

Features implement these Protocols and the kernel imports no feature. The other Protocols are in
`ports` (`Model`, `Tool`, `EventLog`, `Clock`, `MessageContext`), `editor_ports` (`Editor`,
`LanguageServers`) and `journal` (`Listener`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.instructions import ContextFile
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.ports import Intent, Json, Model, Tool, ToolResult
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import TurnOutcome
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Subject
from oh_daemon.protocol.items import Location, NoticeItem, Scope, StopReason

# The parts of the loop


class Toolbox(Protocol):
    """The tools of one agent."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The offered tools by name; replaced as a whole, so any thread may read it."""
        ...

    def refresh(self, cancel: CancelToken, /) -> None:
        """Bring `tools` up to date before a step; may wait for servers that are starting."""
        ...


class Rejection(Struct, frozen=True):
    """The action must not run; `text` is its observation."""

    text: str
    is_for_model: bool = False
    """Whether people need not be shown it."""


class ActionApproval(Protocol):
    """Decides whether an action may run, and asks the user about it."""

    def settle(
        self, item: plain.ToolItem, tool: Tool, intent: Intent, *, again: bool = False
    ) -> Intent | Rejection | None:
        """Return the intent to run (perhaps edited by the user), a rejection, or None to wait.

        With `again`, an action that waits for the user runs if it needs no approval any more.
        Raises `ToolError` when the user's own version of the action cannot run.
        """
        ...


class Gate(Struct, frozen=True):
    """A condition to settle before an action, for instance trust in the folder.

    Rejecting a required gate rejects the action; after rejecting any other, the action runs.
    """

    subject: Subject
    title: str
    is_required: bool
    on_allow: Callable[[Scope], object]
    refusal: str | None = None
    """Set when the user may not be asked: the action is rejected with this reason."""


class OpenQuestions(Protocol):
    """Questions to the user that belong to no action. A subclass need not implement every method.

    Only the worker of the conversation calls it.
    """

    @property
    def are_answered(self) -> bool:
        """Whether there is an answer for `settle`; it starts the worker even between turns."""
        return False

    def settle(self) -> None:
        """Act on the answers."""

    def hold(self) -> bool:
        """Ask about what is new; return whether actions must wait for an answer."""
        return False

    def ask_at_rest(self) -> None:
        """Ask about what a turn leaves behind when it comes to rest."""


class Hooks(Protocol):
    """Programs of the user that see what the agent does, and may refuse it."""

    def take_messages(self, cancel: CancelToken) -> TurnOutcome | None:
        """Show them new messages; return how the turn ends if one was refused."""
        ...

    def lets_rest(self, rest: TurnOutcome, cancel: CancelToken) -> bool:
        """Return False when the agent must go on."""
        ...

    def after_tool(
        self, item: plain.ToolItem, result: ToolResult, cancel: CancelToken
    ) -> tuple[ToolResult, str | None]:
        """Return the result with their additions, and why the turn must end, if it must."""
        ...


class Condenser(Protocol):
    """Makes the messages of a request fit the model's window."""

    def messages(self, model: Model, tools: Sequence[Json], cancel: CancelToken) -> list[Json]:
        """Return the next request's messages. Raises `ContextWindowExceededError`."""
        ...

    def count(self) -> None:
        """Learn from the usage of the last request, which was answered."""
        ...

    def make_room(self, model: Model, cancel: CancelToken, *, is_last: bool) -> bool:
        """Return whether a request that did not fit may be tried again."""
        ...

    def by_hand(self, model: Model, cancel: CancelToken) -> None:
        """Condense at the user's request."""
        ...


class Stuck(Struct, frozen=True):
    """A circle in which the agent goes."""

    pattern: e.StuckPattern
    notice: NoticeItem
    stop_reason: StopReason | None
    """How it ends the turn; None when the model is only warned."""


FindStuck = Callable[[Sequence["plain.Item"]], Stuck | None]
"""Returns the circle that the agent is in after its last step, or None."""
WatchFiles = Callable[[CancelToken], Callable[[], e.CheckpointCreated | None]]
"""Looks at the folders before an action; the function returned looks again for changes."""
MakeDurable = Callable[[e.ChangesPlanned], bool]
"""Makes a plan durable; returns False when nobody wants the changes any more."""


class CommandChanges(Protocol):
    """Brings what commands changed into the open folders. Blocks; for the worker's threads."""

    def collect(self, observation: Json, persist: MakeDurable) -> bool:
        """Take what has changed out of the sandbox, once `keep` has made it durable.

        `item_fields` is the item as the command alone would end it. Returns whether there is
        something to apply: not while another command runs in front, whose end collects both, and
        not as long as `keep` returns False, after which the changes are gone.
        """
        ...

    @property
    def has_news(self) -> bool:
        """Whether a job has ended since changes were collected, and they can be collected now."""
        ...

    def collect_rest(self, observation: Json, persist: MakeDurable, *, ends_turn: bool) -> bool:
        """Do the same for what no command's end collects, such as the changes of a job.

        Unless the turn ends, that is nothing as long as no job has ended.
        """
        ...

    def drop(self) -> None:
        """Take all that has changed out of the sandbox, for good."""
        ...

    def tool(self, planned_changes: plain.ChangesPlanned, *, asks: bool) -> Tool:
        """Return what lands these changes; if nobody is asked, it leaves out protected files."""
        ...


# Features


class Feature(Protocol):
    """A part of one conversation's agent, such as its skills or its budget.

    A subclass need not implement every method. Only the worker calls them, unless a method says
    otherwise.

        class Diary(Feature):
            def sections(self, _offered: Container[str], /) -> Sequence[str]:
                return [f"# Diary: {self._text}"]
    """

    def tools(self) -> Sequence[Tool]:
        """Return the tools to offer now; must not wait."""
        return ()

    def sections(self, _offered: Container[str], /) -> Sequence[str]:
        """Return the sections of a new system prompt, given the names of the offered tools."""
        return ()

    def before_step(self, _conversation: Conversation, _cancel: CancelToken, /) -> None:
        """Prepare a step, before its tools are chosen; may wait."""

    def report(self, _conversation: Conversation, _offered: Container[str], /) -> None:
        """Log what is new for the user or the model, once a step's tools are chosen."""

    def rest_before_step(self, _state: State, /) -> TurnOutcome | None:
        """Return why no further step may begin, or None; may read the disk. For any thread."""
        return None

    def texts_for(
        self, _locations: Sequence[Location], _cancel: CancelToken, /
    ) -> Sequence[ContextFile]:
        """Return texts about the places of a call that the model has not got yet.

        Called on the threads of tool calls.
        """
        return ()

    def restore(self, _state: State, /) -> None:
        """Learn what earlier runs did, from the log; after a rollback, from what is left."""

    def close(self) -> None:
        """End what the feature started. Not called when the daemon ends, which ends all of it."""
