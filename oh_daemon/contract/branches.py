"""Parameters and results about a conversation as a whole: given away, branched, taken back."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import OfConversation


class ExportParams(OfConversation):
    """All of a conversation as one text, without opening or locking it."""

    format: Literal["jsonl", "markdown", "html"] = "markdown"


class ExportResult(Contract):
    text: str
    """At most 32 MiB; secrets that are known by now are masked."""
