"""Parameters and results of what helps to write a message: attachments, commands, mentions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.content import ImageType, Part
from oh_daemon.contract.messages import ConversationId


class AttachmentPutParams(Contract):
    """Upload an image in pieces, for a message that names it; kept until the daemon ends."""

    attachment_id: str | None = None
    """From the answer to the first piece."""
    mime_type: ImageType
    index: Annotated[int, Field(ge=0)]
    """Of this piece; one that came before may come again."""
    total: Annotated[int, Field(ge=1)]
    """How many pieces there are."""
    data: Annotated[str, Field(min_length=1, max_length=-(-(512 << 10) // 3) * 4)]
    """Base64; 512 KiB once decoded."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the whole, checked when the last piece has come."""


class AttachmentPutResult(Contract):
    attachment_id: str
    received: int
    """How many pieces have come."""
    complete: bool


class CommandListParams(Contract):
    """Commands that a message can name by a part of type `command`."""

    conversation_id: ConversationId | None = None


class CommandInfo(Contract):
    name: str
    description: str
    argument_hint: str | None = None


class CommandListResult(Contract):
    commands: tuple[CommandInfo, ...]


ContextKind = Literal["file", "symbol", "conversation", "command", "skill"]


class ContextSearchParams(Contract):
    """What a message can mention, by a few of its letters."""

    query: Annotated[str, Field(max_length=200)]
    kinds: tuple[ContextKind, ...] = ("file", "symbol", "conversation", "command", "skill")
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    conversation_id: ConversationId | None = None
    """Where it will be mentioned; its folders count, and it is not found itself."""


class ContextItem(Contract):
    kind: ContextKind
    label: str
    detail: str | None = None
    part: Part
    """Ready for a message."""


class ContextSearchResult(Contract):
    """Best first."""

    items: tuple[ContextItem, ...]
