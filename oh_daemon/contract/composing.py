"""Parameters and results of methods for composing a message: attachments, commands, mentions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.content import ImageType, Part
from oh_daemon.contract.messages import ConversationId


class AttachmentPutParams(Contract):
    """Upload an image in pieces, to be used in a message; kept until the daemon exits."""

    attachment_id: str | None = None
    """Id from the answer to the first piece."""
    mime_type: ImageType
    index: Annotated[int, Field(ge=0)]
    """Index of this piece; a piece may be sent again."""
    total: Annotated[int, Field(ge=1)]
    """Number of pieces."""
    data: Annotated[str, Field(min_length=1, max_length=-(-(512 << 10) // 3) * 4)]
    """Base64; at most 512 KiB once decoded."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Hash of the whole image, checked when the last piece has arrived."""


class AttachmentPutResult(Contract):
    attachment_id: str
    received: int
    """Number of pieces that have arrived."""
    complete: bool


class CommandListParams(Contract):
    """List the commands that a message can contain as a part of type `command`."""

    conversation_id: ConversationId | None = None


class CommandInfo(Contract):
    name: str
    description: str
    argument_hint: str | None = None


class CommandListResult(Contract):
    commands: tuple[CommandInfo, ...]


ContextKind = Literal["file", "symbol", "conversation", "command", "skill"]


class ContextSearchParams(Contract):
    """Find what a message can mention, by a few letters of its name."""

    query: Annotated[str, Field(max_length=200)]
    kinds: tuple[ContextKind, ...] = ("file", "symbol", "conversation", "command", "skill")
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    conversation_id: ConversationId | None = None
    """The conversation of the message: its folders are searched, and it is not itself found."""


class ContextItem(Contract):
    kind: ContextKind
    label: str
    detail: str | None = None
    part: Part
    """The part to put into the message."""


class ContextSearchResult(Contract):
    """Best match first."""

    items: tuple[ContextItem, ...]
