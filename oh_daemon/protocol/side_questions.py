"""`conversation/ask` for side questions to the model, and `usage/read` for tokens and costs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.messages import ConversationId, OfConversation
from oh_daemon.protocol.status import Usage


class AskParams(OfConversation):
    """Ask the model about the conversation, leaving no trace in it except the cost."""

    question: Annotated[str, Field(min_length=1, max_length=1 << 16)]
    """What to ask, in words."""


class AskResult(Contract):
    text: str
    """The model's answer, in Markdown."""
    usage: Usage


class UsageReadParams(Contract):
    """Sum the tokens and costs of one conversation, or of all in the open folders."""

    conversation_id: ConversationId | None = None
    """Only this conversation; by default all of the open folders."""
    since: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d(T[\d:.]+Z)?$")] | None = None
    """A day or a time in UTC, such as `2026-11-21` or `2026-11-21T08:00:00Z`."""


class ModelUsage(Contract):
    model: str
    """The model that answered."""
    usage: Usage


class DayUsage(Contract):
    day: str
    """In UTC, such as `2026-11-21`."""
    usage: Usage


class UsageReadResult(Contract):
    """Sums over all calls, including titles and summaries, but not deleted conversations."""

    usage: Usage
    by_model: tuple[ModelUsage, ...]
    """The same, for each model."""
    by_day: tuple[DayUsage, ...]
    """The same, for each day."""
