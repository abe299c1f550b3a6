"""A turn, what went wrong in it, and the agent that works in it."""

from __future__ import annotations

from typing import Any, Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import DaemonError
from oh_daemon.contract.items import StopReason, Usage


class ErrorInfo(Contract):
    """A failure as clients show it: what happened and the way out, never a traceback."""

    code: int
    kind: str
    message: str
    retryable: bool = False
    hint: str | None = None

    @staticmethod
    def of(exc: DaemonError) -> ErrorInfo:
        return ErrorInfo.model_validate(exc, from_attributes=True)


class Turn(Contract):
    """From a user message (or resume) until the agent rests."""

    id: str
    status: Literal["running", "completed", "interrupted", "paused", "failed"]
    stop_reason: StopReason | None = None
    started_at: str
    ended_at: str | None = None
    n_steps: int = 0
    usage: Usage | None = None
    error: ErrorInfo | None = None
    final_text: str | None = None
    result: Any = None
    """What `finish` gave, where the conversation has a schema for that."""


class ForkOrigin(Contract):
    """The conversation that another one is a branch of, and the last event that both have."""

    id: str
    seq: int


class AgentInfo(Contract):
    """What answers in this conversation, exactly as the model gets it."""

    model: str
    label: str
    system_prompt: str
    context_files: tuple[str, ...] | None = None
    """The project's files, such as AGENTS.md, that the prompt holds."""
    tools: tuple[dict[str, Any], ...]
