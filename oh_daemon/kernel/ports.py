"""What the core needs from outside, as Protocols, and the plain values that pass through them.

Features, storage and frontends implement these; the kernel imports none
of them. JSON Schema, providers and MCP define what `Json` values hold, so we do not model them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Unpack

from msgspec import Struct, field

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.hosts import Host
from oh_daemon.common.instructions import ContextFile
from oh_daemon.common.masking import Masker
from oh_daemon.common.partial_text import PartialTexts
from oh_daemon.protocol.approvals import Subject, ToolSubject
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import ModelError, StorageError
from oh_daemon.protocol.forms import ToolFields, plain_form
from oh_daemon.protocol.items import Location, Purpose, Risk, StopReason, ToolKind
from oh_daemon.protocol.status import Usage

Json = dict[str, Any]


# Model


class ToolCall(Struct, frozen=True):
    """A tool call as the model wrote it; `arguments` is raw text and may be invalid JSON."""

    id: str
    name: str
    arguments: str


class ModelRequest(Struct, frozen=True):
    """One call. `messages` and `tools` have the form of OpenAI's chat completions."""

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    tool_choice: Literal["auto", "required", "none"] = "auto"
    cache_key: str | None = None
    purpose: Purpose | None = None
    """What the call is for, unless it is a step of a turn."""
    effort: str | None = None
    history: object | None = None
    """The same object in each request of a list that grows: messages in it are prepared once."""


class ModelDelta(Struct, frozen=True):
    """A piece of an answer under way."""

    channel: Literal["text", "reasoning"]
    text: str


class ModelAnswer(Struct, frozen=True):
    """A whole answer. Without a `finish_reason` the stream broke off, and no call in it may run."""

    text: str = ""
    reasoning: str = ""
    thinking_blocks: tuple[Json, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter", ""] = ""
    usage: Usage = field(default_factory=Usage)
    response_id: str | None = None
    model: str | None = None
    """The name of the model that answered; for a router, the one that it chose."""
    has_written_call: bool = False
    """Whether the text holds a call of a tool that was not run, since it is no native call."""
    caveats: tuple[Caveat, ...] = ()
    """What the user should know of this answer, once per conversation."""


class Retry(Struct, frozen=True):
    """Another attempt is coming: `attempt` of `max_attempts` starts after `delay_s` seconds."""

    attempt: int
    max_attempts: int
    delay_s: float
    error: ModelError
    model: str | None = None
    """Set when the next attempt uses another model."""


class Progress(Struct, frozen=True):
    """Callbacks from a call under way, on any thread, and the token that cancels it."""

    cancel: CancelToken
    on_delta: Callable[[ModelDelta], None] = lambda _delta: None
    on_retry: Callable[[Retry], None] = lambda _retry: None
    """Called before another attempt; all deltas so far are void."""


CaveatCode = Literal[
    "browserNotHeld",
    "callsInText",
    "demoModel",
    "mcpServerFailed",
    "mcpServerLeftOut",
    "noCheckpoints",
    "noFunctionCalls",
    "requestChanged",
    "requestCut",
    "unknownPrice",
    "unusedSkill",
]


class Caveat(Struct, frozen=True):
    """What the user should know before it matters; `code` and `about` tell one from another."""

    code: CaveatCode
    title: str
    description: str | None = None
    about: str | None = None


class Traits(Struct, frozen=True):
    """What is known of a model before it is called."""

    context_window: int | None = None
    """Input limit in tokens, or None when unknown."""
    may_be_wider: bool = False
    """Whether another model may answer, whose window is wider or unknown."""
    sees_images: bool = False
    reads_pdfs: bool = False
    """Whether it takes PDFs as documents; otherwise it gets their text."""
    caveats: tuple[Caveat, ...] = ()
    """What a user should know before the first call, for instance no function calling."""
    input_price: float = math.inf
    """US dollars per input token; infinite when unknown."""


class Model(Protocol):
    """A way to get answers. Routers and the demo script are models too."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str:
        """The name for people; it says so when no AI answers."""
        ...

    @property
    def traits(self) -> Traits:
        """May wait, for a slow import or for the endpoint."""
        ...

    @property
    def edits_by_patch(self) -> bool:
        """Whether it changes files by `apply_patch`, not `edit`; must not wait."""
        ...

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Block until the answer is whole.

        Raises `ModelError` when no attempt succeeded and `Cancelled` within 100 ms of a cancel.
        """
        ...


class LikeModel:
    """All of a `Model` that wraps another one, except `complete`."""

    def __init__(self, model: Model, label: str) -> None:
        self._other_model = model
        self.name = model.name
        self.label = label

    @property
    def traits(self) -> Traits:
        return self._other_model.traits

    @property
    def edits_by_patch(self) -> bool:
        return self._other_model.edits_by_patch


# Tools


def digest_of(subject: Subject, material: Iterable[str] = ()) -> str:
    """Hash everything an approval stands for; any change in it makes it another action."""
    canonical = json.dumps([plain_form(subject), *material], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


class ToolSpec(Struct, frozen=True):
    """What the model and the clients are told about a tool, in MCP's shape."""

    name: str
    description: str
    input_schema: Json
    kind: ToolKind = "other"
    read_only: bool = False
    """Whether it only reads: it gets no self-rating, and a call of unknown risk counts as low."""
    counts_as: str | None = None
    """The name of another tool; filters and rules for that one apply to this one too."""
    is_foreign: bool = False
    """Whether an MCP server or the client wrote the schema, and checks what takes long itself."""
    access: Literal["direct", "onDemand", "forwards"] = "direct"
    """How the model calls it: requests have it, unless it is `onDemand`.

    A call of one that `forwards` is the call of another tool, named in its arguments:
    `{"name": "shop__price", "arguments": {"item": "tea"}}`.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which filters and rules may mean this tool."""
        return (self.name,) if self.counts_as is None else (self.name, self.counts_as)


class Footprint(Struct, frozen=True):
    """The files that a call touches; `Intent.risk` decides whether the user is asked about it.

    Two calls conflict, and run one after the other, when one writes and their paths may overlap.
    A footprint decides about approval in two cases only: mode `plan` rejects a call that writes,
    and a call of low risk that touches nothing runs without approval even under `askAlways`, unless
    its tool is of kind "fetch". A tool that calls a web service needs a risk above "low", whatever
    its footprint is.
    """

    writes: bool = True
    """Whether it may change files, processes or anything else."""
    paths: frozenset[str] | None = None
    """Absolute paths, such as `{"/p/a.txt"}`; empty for no file, None for any file."""
    comes_last: bool = False
    """Whether it waits for all calls before it, and all calls after it wait for it."""
    terminal: str | None = None
    """Calls on one terminal never run side by side."""

    @property
    def is_empty(self) -> bool:
        """Whether the call writes nothing and reads no file."""
        return not self.writes and self.paths == frozenset()

    def conflicts_with(self, other_footprint: Footprint) -> bool:
        if self.comes_last or other_footprint.comes_last:
            return True
        if self.terminal is not None and self.terminal == other_footprint.terminal:
            return True
        if not (self.writes or other_footprint.writes):
            return False
        if self.paths is None or other_footprint.paths is None:
            return True
        return bool(self.paths & other_footprint.paths)


class Question(Struct, frozen=True):
    """A question of the agent to the user; the choices are only suggestions."""

    prompt: str
    choices: tuple[str, ...] = ()


class Intent(Struct, frozen=True):
    """What a valid call is about to do, decided before it runs and shown for approval."""

    title: str
    subject: Subject
    risk: Risk
    """The tool's rating: together with the options mode and approval, it decides about approval.

    Under `askRisky`, "low" runs without approval: only for a call that changes nothing of the user
    and sends nothing to another machine. "medium" is asked about: a change that can be undone, a
    request to another machine. "high" is asked about and cannot be allowed for good: permanent
    damage, secrets. "unknown" counts as more than "high", but as "low" if the tool is `read_only`.
    """
    reasons: tuple[str, ...] = ()
    """The grounds for the risk, shown to the user: `("deletes a folder",)`."""
    footprint: Footprint = field(default_factory=Footprint)
    digest_material: tuple[str, ...] = ()
    """What else must not change between approval and run: hashes of scripts, real paths."""
    editable: bool = False
    locations: tuple[Location, ...] = ()
    item_fields: ToolFields = field(default_factory=ToolFields)
    """The item's `kind` and the fields of that kind."""
    question: Question | None = None
    """Put to the user, whose answer is the observation; the tool runs if the user cannot answer."""
    segments: tuple[tuple[str, ...], ...] = ()
    """The parts of a command, each as its words, to which rules apply."""
    outside_floor: bool = False
    """Asks despite saved grants, is rejected if nothing may ask: protected or outside paths."""
    clashes: bool = False
    """Replaces what the user has changed meanwhile, so that it is asked about in any case."""
    leaves: bool = False
    """Asks each time, in every mode but `full`: it leaves the place that keeps others from harm."""
    trust_marks: Callable[[], None] | None = None
    """Stores that the user trusts the read-only marks of an MCP server; None: not offered.

    Raises `ReadOnlyError` or `StorageError`.
    """
    confinement: str | None = None
    """Why it can do no harm whatever it does, because the kernel keeps it from that."""
    is_rated_by_program: bool = False
    """The program's own analyzer gave `risk`, which then counts whatever the confinement."""
    texts: tuple[str, ...] = ()
    """The texts that `subject` names by hash; they are stored when the user is asked."""
    services: tuple[Host, ...] = ()
    """Services of this machine that it must reach from where it is held."""

    @property
    def digest(self) -> str:
        """A hash of everything that an approval stands for, in hexadecimal."""
        return digest_of(self.subject, self.digest_material)

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments of the call; empty if `subject` shows it in another form, as a command."""
        return self.subject.args if isinstance(self.subject, ToolSubject) else {}


class ToolResult(Struct, frozen=True):
    """The outcome in MCP's shape. `item_fields` replace fields of the item."""

    content: tuple[Json, ...] = ()
    is_error: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    item_fields: ToolFields = field(default_factory=ToolFields)
    ends_turn: StopReason | None = None
    """Set when this result ends the turn; its text is then the turn's final text."""
    value: Any = None
    """The turn's result beside its final text."""
    instructions: tuple[ContextFile, ...] = ()
    """Texts that the model is to follow, such as a skill; `content` is data for it."""

    @staticmethod
    def of(text: str, *, is_error: bool = False, **item_fields: Unpack[ToolFields]) -> ToolResult:
        return ToolResult(({"type": "text", "text": text},), is_error, item_fields=item_fields)


def for_model(text: str) -> Json:
    """Return a block that the model reads and clients do not show, marked as MCP marks it."""
    return {"type": "text", "text": text, "annotations": {"audience": ["assistant"]}}


def is_for_people(block: Mapping[str, Any]) -> bool:
    return block.get("annotations") != {"audience": ["assistant"]}


class ToolContext(Struct, frozen=True):
    """What a running call may use. `on_output` takes live output for the client on any thread."""

    conversation_id: str
    item_id: str
    cancel: CancelToken
    on_output: Callable[[str], None]
    masker: Masker
    """For a text that the tool cuts: of half a secret, nobody later sees that it is one."""
    confinement: str | None = None
    """That of the intent by which the call may run; the tool must see to it that it holds."""


class Tool(Protocol):
    """Something that the model may call. `plan` decides, `run` acts."""

    @property
    def spec(self) -> ToolSpec: ...

    def plan(self, args: Json) -> Intent:
        """Say what `args` (already valid against the schema) would do; change nothing.

        Raises `ToolError` when the call cannot work; its text tells the model what to do instead.
        """
        ...

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        """Carry out the call. Raises `ToolError`; returns early with what it has when cancelled."""
        ...


# Deciding about actions


RiskAnalyzer = Callable[[ToolSpec, Intent], Risk]
"""Rates actions in place of the tools' own ratings, also what the sandbox confines.

When it raises, the risk counts as high.
"""
ApprovalPolicy = Callable[[ToolSpec, Intent], Literal["allow", "ask", "reject"] | None]
"""Decides before the options mode and approval do; None leaves the decision to them.

Rules, hooks and protected places still apply. When it raises, the user is asked.
"""


# Messages


class MessageContext(Protocol):
    """What comes with a message beside its content. Must not wait."""

    def seen_in_editor(self) -> dict[str, str]:
        """Return what the user's editor shows, as `kernel.context` renders it."""
        ...

    def environment(self, options: Mapping[str, str], /) -> dict[str, str]:
        """Return facts about the place where the agent works, under these options."""
        ...

    def written_out(self, content: Sequence[Part]) -> tuple[Part, ...]:
        """Return the content with the prompts of the commands and skills that it names.

        Raises `InvalidParamsError` for an unknown command or skill.
        """
        ...


# Storage and time


class LogReader(Protocol):
    """One conversation's lines on disk (or in memory). All methods are safe from any thread."""

    def read_blob(self, sha256: str, offset: int = 0, limit: int = -1) -> bytes: ...

    def blob_size(self, sha256: str) -> int: ...

    def read_range(self, first_seq: int, last_seq: int) -> list[bytes]:
        """Return the lines of these events, without newlines."""
        ...


class EventLog(LogReader, Protocol):
    """A log that this process alone appends to."""

    @property
    def partial(self) -> PartialTexts: ...

    def append(self, lines: bytes) -> None:
        """Write whole lines in one piece. Raises `StorageError`, with no part of them written."""
        ...

    def sync(self) -> None:
        """Return when everything appended so far is durable. Raises `StorageError`."""
        ...

    def after_sync(self, callback: Callable[[StorageError | None], None]) -> None:
        """Call back (from the commit thread) once everything appended so far is durable."""
        ...

    def put_blob(self, data: bytes) -> str:
        """Store bytes under their SHA-256 (hex), which is returned; durable with the next sync."""
        ...

    def put_blob_file(self, path: Path) -> str:
        """Move a finished file into the blobs; it is gone from `path` afterwards."""
        ...

    def close(self) -> None: ...


class Clock(Protocol):
    """Time as a port, so that tests can control it."""

    def now(self) -> str:
        """Return wall time as ISO 8601 UTC with milliseconds; only ever shown or logged."""
        ...

    def monotonic(self) -> float: ...
