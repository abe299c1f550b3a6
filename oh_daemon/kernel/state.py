"""The current state of a conversation: a fold over its records (`kernel.folding`), nothing else.

What it holds of records are the plain dicts that orjson returned; `protocol.plain` has their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard

from msgspec import Struct, field

from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import plain
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import FileChange, Scope, TurnCause
from oh_daemon.protocol.status import ConversationState, Isolation, PauseReason

ENDED = frozenset({"completed", "failed", "rejected", "cancelled"})


class ContextUse(TypedDict, total=False):
    """How much of the model's window the last step took, in tokens; empty when unknown."""

    used: int
    size: int | None


class Review(TypedDict):
    """A changed file, as hashes; None stands for no file."""

    base: str | None
    """The text that was accepted."""
    now: str | None
    """The agent's latest."""
    gaps: list[tuple[str | None, str | None]]
    """Changes by somebody else between the agent's edits, each (before, after)."""
    decision: NotRequired[Literal["kept", "undone", "applied", "discarded"]]
    by_command: NotRequired[bool]
    """Whether a command changed it since it was decided."""


class OpenTurn(Struct):
    """The turn under way."""

    id: str
    cause: TurnCause
    started_at: str
    options: dict[str, str]
    """Override the conversation's options until the turn has ended."""
    n_steps: int = 0
    usage: plain.Usage | None = None
    is_paused: bool = False

    @property
    def only_applies(self) -> bool:
        """Whether the model has no part in it: a job has ended, and its changes land."""
        return self.cause == "apply" and not self.n_steps


class DecisionMade(Struct, frozen=True):
    """What holds for an action; the user's `answer` to `approval`, unless a rule decided."""

    effect: Literal["allow", "reject"]
    scope: Scope = "once"
    approval: plain.Approval | None = None
    answer: plain.ApprovalResolved | None = None


def _no_agent() -> plain.AgentInfo:
    return {"model": "", "label": "", "systemPrompt": "", "tools": []}


class State(Struct):
    """A conversation's state. Only `apply` changes it; readers hold the conversation's lock."""

    conversation_id: str
    seq: int = 0
    title: str = ""
    parent_id: str | None = None
    """For a sub-agent, the conversation that it works for."""
    isolation: Isolation | None = None
    archived: bool = False
    tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    agent: plain.AgentInfo = field(default_factory=_no_agent)
    options: dict[str, str] = field(default_factory=dict[str, str])
    max_steps: int = 100
    max_cost_usd: float | None = None
    result_schema: Json | None = None
    metadata: Json = field(default_factory=dict[str, object])
    forked_from: plain.ForkOrigin | None = None
    status: ConversationState = "idle"
    status_reason: PauseReason | None = None
    created_at: str = ""
    updated_at: str = ""
    turn: OpenTurn | None = None
    last_turn: plain.Turn | None = None
    items: list[plain.Item] = field(default_factory=list["plain.Item"])
    """All items in order of their start; an ended one changes only if a hook refuses a message."""
    positions: dict[str, int] = field(default_factory=dict[str, int])
    open_items: dict[str, None] = field(default_factory=dict[str, None])
    call_ids: set[str] = field(default_factory=set[str])
    """Ids of all tool calls so far, since some providers start again at `call_0`."""
    queue: list[plain.QueuedMessage] = field(default_factory=list["plain.QueuedMessage"])
    approvals: dict[str, plain.Approval] = field(default_factory=dict[str, "plain.Approval"])
    """Pending approvals by id, oldest first."""
    questions: dict[str, plain.InputRequest] = field(
        default_factory=dict[str, "plain.InputRequest"]
    )
    """Questions of the agent that the user has not answered yet, by id."""
    decisions: dict[str, dict[str, DecisionMade]] = field(
        default_factory=dict[str, dict[str, DecisionMade]]
    )
    """Decisions about each open item, by item id and digest."""
    planned_changes: dict[str, plain.ChangesPlanned] = field(
        default_factory=dict[str, "plain.ChangesPlanned"]
    )
    """What open items changed and has not landed yet, by item id."""
    resolutions: dict[str, plain.ApprovalResolved | plain.InputResolved] = field(
        default_factory=dict[str, "plain.ApprovalResolved | plain.InputResolved"]
    )
    """Every resolution of an approval or a question, by the id of what it resolved."""
    grants: set[str] = field(default_factory=set[str])
    turn_grants: set[str] = field(default_factory=set[str])
    pause_requested: Literal["step", "now"] | None = None
    condense_requested: plain.CondensationRequested | None = None
    changes: dict[str, plain.FileChange] = field(default_factory=dict[str, "plain.FileChange"])
    """The open turn's files by URI, each with its first and last hash."""
    turn_changes: dict[str, dict[str, plain.FileChange]] = field(
        default_factory=dict[str, "dict[str, plain.FileChange]"]
    )
    """The changed files of every turn that changed any, by turn id."""
    reviews: dict[str, Review] = field(default_factory=dict[str, Review])
    """Changed files by URI."""
    usage: plain.Usage | None = None
    """Sum over the conversation."""
    known_cost_usd: float = 0.0
    """Cost of the calls whose price is known; limits count this."""
    turn_known_cost_usd: float = 0.0
    """The same for the open turn, and for those before it that crashes cut off."""
    n_steps_before: int = 0
    """The steps of the turns that crashes cut off and the open one goes on with."""
    context: ContextUse = field(default_factory=ContextUse)
    message_count: int = 0
    causes: dict[tuple[str, str], plain.Cause] = field(
        default_factory=dict[tuple[str, str], "plain.Cause"]
    )

    @property
    def options_now(self) -> dict[str, str]:
        """The options, overridden by those of the open turn."""
        return {**self.options, **(self.turn.options if self.turn else {})}

    @property
    def cache_key(self) -> str:
        """The parent's id for a sub-agent, whose prompt starts like its parent's; else the own."""
        return self.parent_id or self.conversation_id

    @property
    def turn_id(self) -> str | None:
        """The id of the open turn."""
        return self.turn.id if self.turn else None

    @property
    def open_turn(self) -> OpenTurn:
        """The turn, for those who work in it."""
        if self.turn is None:
            raise LookupError(f"no turn is open in conversation {self.conversation_id!r}")
        return self.turn

    def item(self, item_id: str) -> plain.Item:
        return self.items[self.positions[item_id]]

    @property
    def pending(self) -> dict[str, plain.Approval | plain.InputRequest]:
        """Everything that waits for the user, by id."""
        return {**self.approvals, **self.questions}

    @property
    def awaited_requests(self) -> dict[str, plain.Approval | plain.InputRequest]:
        """What a turn waits for: no offers, which hang on items that have ended."""
        return {key: question for key, question in self.pending.items() if self._is_open(question)}

    def is_of_program(self, question: plain.Approval | plain.InputRequest) -> bool:
        """Return whether a program in the sandbox asks for a host, while it runs."""
        if "prompt" in question or question["subject"]["kind"] != "host":
            return False
        item_id = question["itemId"]
        # A command whose changes wait to land has begun, and may go on in the background.
        return item_id in self.planned_changes or self.item(item_id)["status"] != "awaitingApproval"

    def _is_open(self, question: plain.Approval | plain.InputRequest) -> bool:
        return question["itemId"] in self.open_items

    def answered_prompts(self) -> dict[str, DecisionMade]:
        """Return the answers to offers on which nobody has acted yet, by item id."""
        return {
            item_id: next(iter(decisions.values()))
            for item_id, decisions in self.decisions.items()
            if decisions and item_id in self.positions and item_id not in self.open_items
        }

    def open_tool_items(self) -> list[plain.ToolItem]:
        """Return the actions without an observation, in the order the model asked for them."""
        return [item for item in map(self.item, self.open_items) if is_tool_item(item)]


def changes_made(item: plain.Item) -> Sequence[plain.FileChange]:
    """Return what an item changed in files."""
    if item["kind"] in ("fileChange", "command") and item["status"] == "completed":
        return item.get("changes", ())
    return ()


def merge_changes(
    before: dict[str, plain.FileChange], changes: tuple[FileChange, ...]
) -> tuple[FileChange, ...]:
    """Merge the turn's files: oldest hash before, newest hash after, counts summed, no patches.

    A file that is again as it was before the turn is left out.
    """
    changes_by_uri = {uri: model_of(FileChange, change) for uri, change in before.items()}
    for change in changes:
        first = changes_by_uri.get(change.uri)
        update: dict[str, Any] = {"patch": None}
        if first is not None:
            came_back = "add" if first.sha256_before is None else "modify"
            update |= {
                "op": change.op if change.op == "delete" else came_back,
                "added": first.added + change.added,
                "removed": first.removed + change.removed,
                "sha256_before": first.sha256_before,
            }
        changes_by_uri[change.uri] = change.model_copy(update=update)
    return tuple(
        file for file in changes_by_uri.values() if file.sha256_before != file.sha256_after
    )


def is_tool_item(item: plain.Item) -> TypeGuard[plain.ToolItem]:
    """Return whether the item is an action or its observation."""
    return "call" in item
