"""Parameters and results about a conversation as a whole: given away, branched, taken back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import ConversationInfo, OfConversation


class ExportParams(OfConversation):
    """All of a conversation as one text, without opening or locking it."""

    format: Literal["jsonl", "markdown", "html"] = "markdown"


class ExportResult(Contract):
    text: str
    """At most 32 MiB; secrets that are known by now are masked."""


class ForkParams(OfConversation):
    """Begin another conversation that has the first part of this one; this one stays as it is."""

    at_item_id: str | None = None
    """The last item that both have; without it all that has ended."""
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class ForkResult(Contract):
    conversation: ConversationInfo
