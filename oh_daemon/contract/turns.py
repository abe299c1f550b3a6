"""A turn, its error, and the agent that works in it."""

from __future__ import annotations

from typing import Any, Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import DaemonError
from oh_daemon.contract.items import StopReason
from oh_daemon.contract.status import Usage


class ErrorInfo(Contract):
    """A failure as clients show it: what happened and what to do, never a traceback."""

    code: int
    kind: str
    message: str
    retryable: bool = False
    hint: str | None = None

    @staticmethod
    def of(exc: DaemonError) -> ErrorInfo:
        return ErrorInfo.model_validate(exc, from_attributes=True)


class Turn(Contract):
    """The agent's work from a user message (or a resume) until it rests."""

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
    """What the agent gave to `finish`, if the conversation has a `resultSchema`."""


class AgentInfo(Contract):
    """The model, prompt and tools of a conversation, exactly as they are sent to the model."""

    model: str
    label: str
    system_prompt: str
    context_files: tuple[str, ...] | None = None
    """The project's files that the prompt includes, such as AGENTS.md."""
    skills: dict[str, str] | None = None
    """Names of the skills that the prompt lists or includes, each with a digest of its text."""
    tools: tuple[dict[str, Any], ...]
