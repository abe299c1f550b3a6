"""Models that a client reaches for the daemon: how it offers them, and how they are asked.

The client has the keys, makes the attempts and knows the prices; the daemon has none of that.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.daemon_messages import ModelInfo
from oh_daemon.protocol.items import Purpose
from oh_daemon.protocol.status import Usage


class OfferedModel(ModelInfo):
    """A model that the client can reach."""

    edits_by_patch: bool = False
    """Whether it changes files by `apply_patch`, not `edit`."""


class ModelOffer(Contract):
    """All models that the client can reach, as `models` in the block of `initialize`."""

    default: str | None = None
    """Id of the one that a new conversation has."""
    listed: tuple[OfferedModel, ...] = ()
    """All that can be chosen by name."""


class ModelDescribeParams(Contract):
    """Say what is known of a model before it is called. Fallback: nothing is known."""

    model: str
    """The model by its name."""


class ModelCaveat(Contract):
    code: Literal["demoModel", "noFunctionCalls", "unknownPrice"]
    """What it is, for programs."""
    title: str
    description: str | None = None
    about: str | None = None
    """What the code is about."""


class ModelDescribeResult(Contract):
    context_window: int | None = None
    """Input limit in tokens."""
    may_be_wider: bool = False
    """Whether another model may answer, whose window is wider or unknown."""
    sees_images: bool = False
    """Whether it accepts images."""
    reads_pdfs: bool = False
    """Whether it accepts PDFs; otherwise it gets their text."""
    caveats: tuple[ModelCaveat, ...] = ()
    """What a user should know before the first call."""
    input_price: float | None = None
    """US dollars per input token."""


class ModelCompleteParams(Contract):
    """Ask a model, with the client's key. Fallback: the call fails, and the turn pauses."""

    call_id: str
    """For `model/progress`."""
    model: str
    """The model by its name."""
    messages: tuple[dict[str, Any], ...]
    """In the form of OpenAI's chat completions, as `tools`."""
    tools: tuple[dict[str, Any], ...] = ()
    """The tools that it may call."""
    tool_choice: Literal["auto", "required", "none"] = "auto"
    """Whether it may, must or must not call one."""
    cache_key: str | None = None
    """The same for all calls with the same beginning."""
    purpose: Purpose | None = None
    """What the call is for, unless it is a step of a turn."""


class AnsweredCall(Contract):
    id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    arguments: str
    """As the model wrote them; they may be no JSON."""


class CallUsage(Usage):
    """What a client says of one call, where each field may be missing."""


class ModelCompleteResult(Contract):
    text: str = ""
    """The whole text."""
    reasoning: str = ""
    """What the model thought, as far as the provider tells it."""
    thinking_blocks: tuple[dict[str, Any], ...] = ()
    """What must go back to the model unchanged."""
    tool_calls: tuple[AnsweredCall, ...] = ()
    """The tools that it calls."""
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter", ""] = ""
    """Without one, the answer broke off, and no call in it runs."""
    usage: CallUsage = Field(default_factory=CallUsage)
    response_id: str | None = None
    """The provider's id of the answer."""
    model: str | None = None
    """The model that answered; for a router, the one that it chose."""


class ModelDeltaPart(Contract):
    channel: Literal["text", "reasoning"]
    """What the text belongs to."""
    text: str
    """The piece of text."""


class ModelRetryPart(Contract):
    """Another attempt is coming; all deltas so far are void."""

    attempt: int
    """Number of the attempt that comes."""
    max_attempts: int
    """How many there are at most."""
    delay_s: float
    """Seconds until then."""
    error: dict[str, Any]
    """The error of the attempt that failed, in JSON-RPC's form."""
    model: str | None = None
    """Set when the next attempt uses another model."""


class ModelProgressParams(Contract):
    """Says how a `model/complete` under way goes on."""

    call_id: str
    """That of `model/complete`."""
    delta: ModelDeltaPart | None = None
    """A piece of the answer."""
    retry: ModelRetryPart | None = None
    """Another attempt is coming."""
