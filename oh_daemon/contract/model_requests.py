"""Models that a client reaches for the daemon: how it offers them, and how they are asked.

The client has the keys, makes the attempts and knows the prices; the daemon has none of that.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.daemon_messages import ModelInfo
from oh_daemon.contract.items import Purpose
from oh_daemon.contract.status import Usage


class OfferedModel(ModelInfo):
    """A model that the client can reach."""

    edits_by_patch: bool = False
    """Whether it changes files by `apply_patch`, not `edit`."""


class ModelOffer(Contract):
    """All models that the client can reach, as `models` in the block of `initialize`."""

    default: str | None = None
    listed: tuple[OfferedModel, ...] = ()


class ModelDescribeParams(Contract):
    """Say what is known of a model before it is called. Fallback: nothing is known."""

    model: str


class ModelCaveat(Contract):
    code: Literal["demoModel", "noFunctionCalls", "unknownPrice"]
    title: str
    description: str | None = None
    about: str | None = None


class ModelDescribeResult(Contract):
    context_window: int | None = None
    """Input limit in tokens."""
    may_be_wider: bool = False
    """Whether another model may answer, whose window is wider or unknown."""
    sees_images: bool = False
    caveats: tuple[ModelCaveat, ...] = ()
    """What a user should know before the first call."""
    input_price: float | None = None
    """US dollars per input token."""


class ModelCompleteParams(Contract):
    """Ask a model, with the client's key. Fallback: the call fails, and the turn pauses."""

    call_id: str
    """For `model/progress`."""
    model: str
    messages: tuple[dict[str, Any], ...]
    """In the form of OpenAI's chat completions, as `tools`."""
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: Literal["auto", "required", "none"] = "auto"
    cache_key: str | None = None
    purpose: Purpose | None = None
    """What the call is for, unless it is a step of a turn."""


class AnsweredCall(Contract):
    id: str
    name: str
    arguments: str
    """As the model wrote them; they may be no JSON."""


class CallUsage(Usage):
    """What a client says of one call, where each field may be missing."""


class ModelCompleteResult(Contract):
    text: str = ""
    reasoning: str = ""
    thinking_blocks: tuple[dict[str, Any], ...] = ()
    tool_calls: tuple[AnsweredCall, ...] = ()
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter", ""] = ""
    """Without one, the answer broke off, and no call in it runs."""
    usage: CallUsage = Field(default_factory=CallUsage)
    response_id: str | None = None
    model: str | None = None
    """The model that answered; for a router, the one that it chose."""


class ModelDeltaPart(Contract):
    channel: Literal["text", "reasoning"]
    text: str


class ModelRetryPart(Contract):
    """Another attempt is coming; all deltas so far are void."""

    attempt: int
    max_attempts: int
    delay_s: float
    error: dict[str, Any]
    """The error of the attempt that failed, in JSON-RPC's form."""
    model: str | None = None
    """Set when the next attempt uses another model."""


class ModelProgressParams(Contract):
    """Says how a `model/complete` under way goes on."""

    call_id: str
    delta: ModelDeltaPart | None = None
    retry: ModelRetryPart | None = None
